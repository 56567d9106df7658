struct dl_rows_0_totals0 {
  enum { count = 1 };
  f64 a0 = 0.0;
  __device__ void join(const dl_rows_0_totals0 &later) {
    a0 = a0 + later.a0;
  }
  __device__ dl_rows_0_totals0 shuffled(i32 d) const { dl_rows_0_totals0 other; other.a0 = dl_shuffle(a0, d); return other; }
  template <class W> __device__ void put(W &&words, i64 at) const { words[at + 0] = dl_word(a0); }
  template <class W> __device__ void get(W &&words, i64 at) { a0 = dl_of_word<f64>(words[at + 0]); }
};
extern "C" __global__ void __launch_bounds__(256) dl_rows_0(dl_run *run, i64 site, i64 trips, DL_GLOBAL(f64) p1, i64 v2, DL_GLOBAL(f64) p3) {
  // rows
  for (i64 t = dl_first() / DL_WARP; t < trips; t += dl_stride() / DL_WARP) {
    const i64 v4 = t;
    DL_GLOBAL(f64) p5 = p1 + (v2*v4);
    dl_rows_0_totals0 a6;
    for (i64 v7 = dl_lane(), n8 = v2; v7 < n8; v7 += DL_WARP) {
      const f64 v9 = p3[v2*v4 + v7];
      a6.a0 = a6.a0 + v9;
    }
    dl_fold_warp(a6);
    __syncwarp();
    for (i64 v10 = dl_lane(), n11 = v2; v10 < n11; v10 += DL_WARP) {
      const f64 v12 = p3[v2*v4 + v10];
      const f64 v13 = v12 / a6.a0;
      p5[v10] = v13;
    }
    __syncwarp();
  }
}
