extern "C" __global__ void __launch_bounds__(256) dl_map_0(dl_run *run, i64 site, dl_index iterations, dl_index v1, DL_GLOBAL(f64) p2, DL_GLOBAL(i32) p3, DL_GLOBAL(f64) p4) {
  // map
  for (dl_index t = dl_first(); t < iterations; t += dl_stride()) {
    const dl_index j5 = t * 2;
    const i32 n6 = dl_left(v1 - j5);
    f64 a7[2];
    i32 a8[2];
    f64 a9[2];
    dl_load(a7, p2, j5, n6);
    dl_load(a8, p3, j5, n6);
    #pragma unroll
    for (i32 k = 0; k < 2; ++k) {
      const dl_index v10 = j5 + k;
      const f64 v11 = a7[k];
      const f64 v12 = exp(v11);
      const i32 v13 = a8[k];
      const i32 v14 = dl_add(v13, i32(1));
      const f64 v15 = f64(v14);
      const f64 v16 = v12 * v15;
      a9[k] = v16;
    }
    dl_store(p4, j5, a9, n6);
  }
}
