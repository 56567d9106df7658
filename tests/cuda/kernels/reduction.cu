struct dl_reduction_0_totals {
  enum { count = 3 };
  f64 a0 = 0.0;
  f64 a1 = (-dl_infinity_f64());
  i64 a2 = -1ll;
  __device__ void join(const dl_reduction_0_totals &later) {
    a0 = a0 + later.a0;
    if (dl_larger(later.a1, later.a2, a1, a2)) { a1 = later.a1; a2 = later.a2; }
  }
  __device__ dl_reduction_0_totals shuffled(i32 d) const { dl_reduction_0_totals other; other.a0 = dl_shuffle(a0, d); other.a1 = dl_shuffle(a1, d); other.a2 = dl_shuffle(a2, d); return other; }
  template <class W> __device__ void put(W &&words, i64 at) const { words[at + 0] = dl_word(a0); words[at + 1] = dl_word(a1); words[at + 2] = dl_word(a2); }
  template <class W> __device__ void get(W &&words, i64 at) { a0 = dl_of_word<f64>(words[at + 0]); a1 = dl_of_word<f64>(words[at + 1]); a2 = dl_of_word<i64>(words[at + 2]); }
};
extern "C" __global__ void __launch_bounds__(256) dl_reduction_0(dl_run *run, i64 site, i64 trips, DL_GLOBAL(f64) p1, DL_GLOBAL(f64) p2, DL_GLOBAL(f64) p3, DL_GLOBAL(i64) p4) {
  // reduction
  dl_reduction_0_totals a5;
  for (i64 t = dl_first(); t < trips; t += dl_stride()) {
    const i64 v6 = t;
    const f64 v7 = p1[v6];
    const i64 v8 = v6;
    a5.a0 = a5.a0 + v7;
    if (dl_larger(v7, v8, a5.a1, a5.a2)) {
      a5.a1 = v7;
      a5.a2 = v8;
    }
  }
  if (dl_fold_grid(run, a5)) {
    p2[0] = a5.a0;
    p3[0] = a5.a1;
    p4[0] = a5.a2;
  }
}
