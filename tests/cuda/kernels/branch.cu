extern "C" __global__ void __launch_bounds__(256) dl_map_0(dl_run *run, i64 site, i64 trips, i64 v1, DL_GLOBAL(f64) p2, DL_GLOBAL(f64) p3) {
  // map
  for (i64 t = dl_first(); t < trips; t += dl_stride()) {
    const i64 n5 = (v1 + 1) / 2;
    const i64 t6 = t / n5;
    const i64 j4 = t % n5 * 2;
    const i64 v7 = t6;
    const i32 n8 = dl_left(v1 - j4);
    f64 a9[2];
    #pragma unroll
    for (i32 k = 0; k < 2; ++k) if (k < n8) {
      const i64 v10 = j4 + k;
      const bool v11 = v10 <= v7;
      f64 v12;
      if (v11) {
        const f64 v13 = p2[v1*v7 + v10];
        v12 = v13;
      }
      else {
        v12 = 0.0;
      }
      a9[k] = v12;
    }
    dl_store(p3, v1*v7 + j4, a9, n8);
  }
}
