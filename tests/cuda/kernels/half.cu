extern "C" __global__ void __launch_bounds__(256) dl_map_0(dl_run *run, i64 site, dl_index iterations, dl_index v1, DL_GLOBAL(u16) p2, DL_GLOBAL(u16) p3, DL_GLOBAL(u16) p4) {
  // map
  for (dl_index t = dl_first(); t < iterations; t += dl_stride()) {
    const dl_index j5 = t * 8;
    const i32 n6 = dl_left(v1 - j5);
    u16 a7[8];
    u16 a8[8];
    u16 a9[8];
    dl_load(a7, p2, j5, n6);
    dl_load(a8, p3, j5, n6);
    #pragma unroll
    for (i32 k = 0; k < 8; ++k) {
      const dl_index v10 = j5 + k;
      const f32 v11 = dl_decode_f16(a7[k]);
      const f32 v12 = dl_decode_f16(a8[k]);
      const f32 v13 = dl_round_f16(v11 * v12);
      const f32 v14 = dl_round_f16(v13 + v11);
      a9[k] = dl_encode_f16(v14);
    }
    dl_store(p4, j5, a9, n6);
  }
}
