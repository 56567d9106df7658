extern "C" __global__ void __launch_bounds__(256) dl_map_0(dl_run *run, i64 site, i64 trips, DL_GLOBAL(f64) p1, DL_GLOBAL(i32) p2, DL_GLOBAL(f64) p3) {
  // map
  for (i64 t = dl_first(); t < trips; t += dl_stride()) {
    const i64 v4 = t;
    const f64 v5 = p1[v4];
    const f64 v6 = exp(v5);
    const i32 v7 = p2[v4];
    const i32 v8 = dl_add(v7, i32(1));
    const f64 v9 = f64(v8);
    const f64 v10 = v6 * v9;
    p3[v4] = v10;
  }
}
