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
extern "C" __global__ void __launch_bounds__(256) dl_reduction_0(dl_run *run, i64 site, dl_index iterations, dl_index v1, DL_GLOBAL(f64) p2, DL_GLOBAL(f64) p3, DL_GLOBAL(f64) p4, DL_GLOBAL(i64) p5) {
  // reduction
  if (dl_failed(run, site, 0)) return;
  dl_reduction_0_totals a6;
  for (dl_index t = dl_first(); t < iterations; t += dl_stride()) {
    const dl_index j7 = t * 2;
    const i32 n8 = dl_left(v1 - j7);
    f64 a9[2];
    dl_load(a9, p2, j7, n8);
    #pragma unroll
    for (i32 k = 0; k < 2; ++k) if (k < n8) {
      const dl_index v10 = j7 + k;
      const f64 v11 = a9[k];
      const i64 v12 = i64(v10);
      a6.a0 = a6.a0 + v11;
      if (dl_larger(v11, v12, a6.a1, a6.a2)) {
        a6.a1 = v11;
        a6.a2 = v12;
      }
    }
  }
  if (dl_fold_grid(run, a6)) {
    p3[0] = a6.a0;
    p4[0] = a6.a1;
    p5[0] = a6.a2;
  }
}

extern "C" __global__ void __launch_bounds__(256) dl_map_1(dl_run *run, i64 site, dl_index iterations, DL_GLOBAL(f64) p1, DL_GLOBAL(i64) p2, DL_GLOBAL(f64) p3, DL_GLOBAL(i64) p4) {
  // map
  if (dl_failed(run, site, 0)) return;
  const f64 v5 = p1[0];
  const i64 v6 = p2[0];
  const i64 v7 = dl_maximum(v6, 0ll);
  const i64 v8 = v7;
  for (dl_index t = dl_first(); t < iterations; t += dl_stride()) {
    const dl_index v9 = t;
    p3[0] = v5;
    p4[0] = v8;
  }
}
