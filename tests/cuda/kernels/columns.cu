extern "C" __global__ void __launch_bounds__(256) dl_map_0(dl_run *run, i64 site, i64 trips, DL_GLOBAL(f64) p1) {
  // map
  for (i64 t = dl_first(); t < trips; t += dl_stride()) {
    const i64 v2 = t;
    p1[v2] = 0.0;
  }
}

extern "C" __global__ void __launch_bounds__(256) dl_map_1(dl_run *run, i64 site, i64 trips, i64 v1, DL_GLOBAL(f64) p2, i64 v3, DL_GLOBAL(f64) p4) {
  // map
  for (i64 t = dl_first(); t < trips; t += dl_stride()) {
    const i64 v5 = t;
    for (i64 v6 = 0, n7 = v1; v6 < n7; ++v6) {
      const f64 v8 = p2[v3*v6 + v5];
      { const f64 v9 = p4[v5]; p4[v5] = v9 + v8; }
    }
  }
}
