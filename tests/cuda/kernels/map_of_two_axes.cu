extern "C" __global__ void __launch_bounds__(256) dl_map_0(dl_run *run, i64 site, i64 trips, i64 v1, DL_GLOBAL(f32) p2, DL_GLOBAL(f32) p3, DL_GLOBAL(f32) p4) {
  // map
  for (i64 t = dl_first(); t < trips; t += dl_stride()) {
    const i64 n6 = (v1 + 3) / 4;
    const i64 t7 = t / n6;
    const i64 j5 = t % n6 * 4;
    const i64 v8 = t7;
    const f32 v9 = p2[v8];
    const i32 n10 = dl_left(v1 - j5);
    f32 a11[4];
    f32 a12[4];
    dl_load(a11, p3, j5, n10);
    #pragma unroll
    for (i32 k = 0; k < 4; ++k) {
      const i64 v13 = j5 + k;
      const f32 v14 = a11[k];
      const f32 v15 = dl_maximum(v9, v14);
      a12[k] = v15;
    }
    dl_store(p4, v1*v8 + j5, a12, n10);
  }
}
