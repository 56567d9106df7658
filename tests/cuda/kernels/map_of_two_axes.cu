extern "C" __global__ void __launch_bounds__(256) dl_map_0(dl_run *run, i64 site, dl_index iterations, dl_index v1, DL_GLOBAL(f32) p2, DL_GLOBAL(f32) p3, DL_GLOBAL(f32) p4) {
  // map
  for (dl_index t = dl_first(); t < iterations; t += dl_stride()) {
    const dl_index n6 = dl_quotient(v1 + 3, 4);
    const dl_index t7 = dl_quotient(t, n6);
    const dl_index j5 = dl_remainder(t, n6) * 4;
    const dl_index v8 = t7;
    const f32 v9 = p2[v8];
    const i32 n10 = dl_left(v1 - j5);
    f32 a11[4];
    f32 a12[4];
    dl_load(a11, p3, j5, n10);
    #pragma unroll
    for (i32 k = 0; k < 4; ++k) {
      const dl_index v13 = j5 + k;
      const f32 v14 = a11[k];
      const f32 v15 = dl_maximum(v9, v14);
      a12[k] = v15;
    }
    dl_store(p4, v1*v8 + j5, a12, n10);
  }
}
