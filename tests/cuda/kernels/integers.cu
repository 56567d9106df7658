extern "C" __global__ void __launch_bounds__(256) dl_map_0(dl_run *run, i64 site, i64 trips, DL_GLOBAL(u64) p1, DL_GLOBAL(i8) p2, DL_GLOBAL(u64) p3) {
  // map
  for (i64 t = dl_first(); t < trips; t += dl_stride()) {
    const i64 v4 = t;
    const u64 v5 = p1[v4];
    const u64 v6 = dl_shift_right(v5, 3ull);
    const i8 v7 = p2[v4];
    const u64 v8 = u64(v7);
    const u64 v9 = dl_mul(v6, v8);
    p3[v4] = v9;
  }
}
