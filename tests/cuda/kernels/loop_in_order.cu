extern "C" __global__ void __launch_bounds__(256) dl_map_0(dl_run *run, i64 site, dl_index iterations, DL_GLOBAL(f64) p1, DL_GLOBAL(i64) p2) {
  // map
  for (dl_index t = dl_first(); t < iterations; t += dl_stride()) {
    const dl_index v3 = t;
    const f64 v4 = p1[v3];
    f64 v5 = v4;
    i64 v6 = 0ll;
    for (;;) {
      const bool v7 = v5 > 1.0;
      if (!v7) break;
      const f64 v8 = v5 * 0.5;
      const i64 v9 = dl_add(v6, 1ll);
      const f64 v10 = v8;
      const i64 v11 = v9;
      v5 = v10;
      v6 = v11;
    }
    p2[v3] = v6;
  }
}
