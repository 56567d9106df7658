struct dl_rows_0_totals0 {
  enum { count = 1 };
  f32 a0 = (-dl_infinity_f32());
  __device__ void join(const dl_rows_0_totals0 &later) {
    a0 = dl_maximum(a0, later.a0);
  }
  __device__ dl_rows_0_totals0 shuffled(i32 d) const { dl_rows_0_totals0 other; other.a0 = dl_shuffle(a0, d); return other; }
  template <class W> __device__ void put(W &&words, i64 at) const { words[at + 0] = dl_word(a0); }
  template <class W> __device__ void get(W &&words, i64 at) { a0 = dl_of_word<f32>(words[at + 0]); }
};
struct dl_rows_0_totals1 {
  enum { count = 1 };
  f32 a0 = 0.0f;
  __device__ void join(const dl_rows_0_totals1 &later) {
    a0 = a0 + later.a0;
  }
  __device__ dl_rows_0_totals1 shuffled(i32 d) const { dl_rows_0_totals1 other; other.a0 = dl_shuffle(a0, d); return other; }
  template <class W> __device__ void put(W &&words, i64 at) const { words[at + 0] = dl_word(a0); }
  template <class W> __device__ void get(W &&words, i64 at) { a0 = dl_of_word<f32>(words[at + 0]); }
};
extern "C" __global__ void __launch_bounds__(512) dl_rows_0(dl_run *run, i64 site, dl_index iterations, DL_GLOBAL(f32) p1, dl_index v2, DL_GLOBAL(f32) p3) {
  // rows
  if (dl_failed(run, site, 0)) return;
  const i32 width = dl_width(v2, 8), rank = (i32)threadIdx.x % width;
  const bool kept4 = v2 <= width * 8;
  for (dl_index t = dl_first_row(width); t < iterations; t += dl_rows(width)) {
    const dl_index v5 = t;
    DL_GLOBAL(f32) p6 = p1 + (v2*v5);
    dl_rows_0_totals0 a7;
    f32 a8[2][4];
    #pragma unroll 1
    for (dl_index base = 0; base < v2; base += width * 8) {
      #pragma unroll
      for (i32 q = 0; q < 2; ++q) {
        const dl_index j9 = base + (q * width + rank) * 4;
        const i32 n10 = dl_left(v2 - j9);
        if (n10) dl_load(a8[q], p3, v2*v5 + j9, n10);
      }
      #pragma unroll
      for (i32 q = 0; q < 2; ++q) {
        const dl_index j9 = base + (q * width + rank) * 4;
        const i32 n10 = dl_left(v2 - j9);
        if (!n10) break;
        #pragma unroll
        for (i32 k = 0; k < 4; ++k) if (k < n10) {
          const dl_index v11 = j9 + k;
          const f32 v12 = a8[q][k];
          a7.a0 = dl_maximum(a7.a0, v12);
        }
      }
    }
    dl_fold_group(a7, width);
    dl_rows_0_totals1 a13;
    f32 a14[2][4];
    #pragma unroll 1
    for (dl_index base = 0; base < v2; base += width * 8) {
      #pragma unroll
      for (i32 q = 0; q < 2; ++q) {
        const dl_index j15 = base + (q * width + rank) * 4;
        const i32 n16 = dl_left(v2 - j15);
        if (!kept4 && n16) dl_load(a8[q], p3, v2*v5 + j15, n16);
      }
      #pragma unroll
      for (i32 q = 0; q < 2; ++q) {
        const dl_index j15 = base + (q * width + rank) * 4;
        const i32 n16 = dl_left(v2 - j15);
        if (!n16) break;
        #pragma unroll
        for (i32 k = 0; k < 4; ++k) if (k < n16) {
          const dl_index v17 = j15 + k;
          const f32 v18 = a8[q][k];
          const f32 v19 = v18 - a7.a0;
          const f32 v20 = expf(v19);
          a14[q][k] = v20;
          a13.a0 = a13.a0 + v20;
        }
        if (!kept4) dl_store(p6, j15, a14[q], n16);
      }
    }
    dl_fold_group(a13, width);
    #pragma unroll 1
    for (dl_index base = 0; base < v2; base += width * 8) {
      #pragma unroll
      for (i32 q = 0; q < 2; ++q) {
        const dl_index j21 = base + (q * width + rank) * 4;
        const i32 n22 = dl_left(v2 - j21);
        if (!kept4 && n22) dl_load(a14[q], p6, j21, n22);
      }
      #pragma unroll
      for (i32 q = 0; q < 2; ++q) {
        const dl_index j21 = base + (q * width + rank) * 4;
        const i32 n22 = dl_left(v2 - j21);
        if (!n22) break;
        #pragma unroll
        for (i32 k = 0; k < 4; ++k) {
          const dl_index v23 = j21 + k;
          const f32 v24 = a14[q][k];
          const f32 v25 = v24 / a13.a0;
          a14[q][k] = v25;
        }
        dl_store(p6, j21, a14[q], n22);
      }
    }
  }
}
