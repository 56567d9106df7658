extern "C" __global__ void __launch_bounds__(256) dl_map_0(dl_run *run, i64 site, i64 trips, i64 v1, DL_GLOBAL(f64) p2, DL_GLOBAL(f64) p3) {
  // map
  for (i64 t = dl_first(); t < trips; t += dl_stride()) {
    const i64 n4 = v1;
    const i64 t5 = t / n4;
    const i64 v6 = t % n4;
    const i64 v7 = t5;
    const bool v8 = v6 <= v7;
    f64 v9;
    if (v8) {
      const f64 v10 = p2[v1*v7 + v6];
      v9 = v10;
    }
    else {
      v9 = 0.0;
    }
    p3[v1*v7 + v6] = v9;
  }
}
