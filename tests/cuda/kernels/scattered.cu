extern "C" __global__ void __launch_bounds__(256) dl_map_0(dl_run *run, i64 site, i64 trips, DL_GLOBAL(i64) p1, i64 v2) {
  // map
  for (i64 t = dl_first(); t < trips; t += dl_stride()) {
    const i64 v3 = t;
    const i64 v4 = p1[v3];
    const bool v5 = v4 < v2;
    const bool v6 = v4 >= 0ll;
    const bool v7 = v6 && v5;
    if (!v7) {
      const i64 w8[] = {dl_word(v4), dl_word(v2)};
      dl_fail(run, t, site + 0, 2, w8);
      return;
    }
    const i64 v9 = v4;
  }
}

extern "C" __global__ void __launch_bounds__(256) dl_map_1(dl_run *run, i64 site, i64 trips, DL_GLOBAL(f64) p1) {
  // map
  for (i64 t = dl_first(); t < trips; t += dl_stride()) {
    const i64 v2 = t;
    p1[v2] = 0.0;
  }
}

extern "C" __global__ void __launch_bounds__(256) dl_map_2(dl_run *run, i64 site, i64 trips, DL_GLOBAL(i64) p1, DL_GLOBAL(f64) p2, DL_GLOBAL(f64) p3) {
  // map
  for (i64 t = dl_first(); t < trips; t += dl_stride()) {
    const i64 v4 = t;
    const i64 v5 = p1[v4];
    const f64 v6 = p2[v5];
    const f64 v7 = v6 + v6;
    dl_atomic_sum(DL_AT(p3, v5), v7);
  }
}
