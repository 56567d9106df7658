extern "C" __global__ void __launch_bounds__(256) dl_map_0(dl_run *run, i64 site, dl_index iterations, dl_index v1, DL_GLOBAL(f64) p2, DL_GLOBAL(f64) p3) {
  // map
  for (dl_index t = dl_first(); t < iterations; t += dl_stride()) {
    const dl_index n5 = dl_quotient(v1 + 1, 2);
    const dl_index t6 = dl_quotient(t, n5);
    const dl_index j4 = dl_remainder(t, n5) * 2;
    const dl_index v7 = t6;
    const i32 n8 = dl_left(v1 - j4);
    f64 a9[2];
    #pragma unroll
    for (i32 k = 0; k < 2; ++k) if (k < n8) {
      const dl_index v10 = j4 + k;
      const bool v11 = i64(v10) <= i64(v7);
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
