extern "C" __global__ void __launch_bounds__(256) dl_map_0(dl_run *run, i64 site, dl_index iterations, dl_index v1, DL_GLOBAL(f64) p2) {
  // map
  for (dl_index t = dl_first(); t < iterations; t += dl_stride()) {
    const dl_index j3 = t * 2;
    const i32 n4 = dl_left(v1 - j3);
    f64 a5[2];
    #pragma unroll
    for (i32 k = 0; k < 2; ++k) {
      const dl_index v6 = j3 + k;
      a5[k] = 0.0;
    }
    dl_store(p2, j3, a5, n4);
  }
}

struct dl_columns_1_totals {
  enum { count = 1 };
  f64 a0 = 0.0;
  __device__ void join(const dl_columns_1_totals &later) {
    a0 = a0 + later.a0;
  }
  __device__ dl_columns_1_totals shuffled(i32 d) const { dl_columns_1_totals other; other.a0 = dl_shuffle(a0, d); return other; }
  template <class W> __device__ void put(W &&words, i64 at) const { words[at + 0] = dl_word(a0); }
  template <class W> __device__ void get(W &&words, i64 at) { a0 = dl_of_word<f64>(words[at + 0]); }
};
extern "C" __global__ void __launch_bounds__(256, 3) dl_columns_1(dl_run *run, i64 site, dl_index iterations, dl_index v1, dl_index v2, DL_GLOBAL(f64) p3, DL_GLOBAL(f64) p4, dl_index v5, DL_GLOBAL(f64) p6) {
  // columns
  if (iterations == 0) return;
  const dl_index pieces = dl_quotient(v1 + 1, 2);
  const dl_index outer = dl_quotient(iterations, dl_quotient(pieces + DL_WARP - 1, DL_WARP) * v5);
  const i32 columns = dl_columns(pieces, outer), rows = (i32)blockDim.x / columns;
  const i32 column = (i32)threadIdx.x % columns, row = (i32)threadIdx.x / columns;
  const dl_index tiles = dl_quotient(pieces + columns - 1, columns);
  for (dl_index t = blockIdx.x; t < outer * tiles * v5; t += gridDim.x) {
    const dl_index turn = dl_remainder(t, v5), tile = dl_quotient(t, v5);
    const dl_index j7 = (dl_remainder(tile, tiles) * columns + column) * 2;
    const i32 n8 = dl_left(v1 - j7);
    dl_columns_1_totals a9[2];
    const dl_index n11 = (v2 + v5 - 1) / v5;
    const dl_index r10 = turn * n11;
    const dl_index r10_end = dl_minimum(dl_index(v2), dl_index(r10 + n11));
    for (dl_index r12 = (r10) + row; r12 < r10_end; r12 += rows * 4) {
      f64 a14[4][2];
      #pragma unroll
      for (i32 q = 0; q < 4; ++q) {
        const dl_index v15 = r12 + q * rows;
        const i32 n13 = v15 < r10_end ? n8 : 0;
        if (!n13) break;
        dl_load(a14[q], p3, v1*v15 + j7, n13);
      }
      #pragma unroll
      for (i32 q = 0; q < 4; ++q) {
        const dl_index v16 = r12 + q * rows;
        const i32 n13 = v16 < r10_end ? n8 : 0;
        if (!n13) break;
        #pragma unroll
        for (i32 k = 0; k < 2; ++k) if (k < n13) {
          const dl_index v17 = j7 + k;
          const f64 v18 = a14[q][k];
          a9[k].a0 = a9[k].a0 + v18;
        }
      }
    }
    dl_fold_columns(a9, columns, rows);
    if (row != 0) continue;
    #pragma unroll
    for (i32 k = 0; k < 2; ++k) if (k < n8) {
      const dl_index v19 = j7 + k;
      if (v5 > 1) {
        const dl_index n20 = v1;
        const dl_index i21 = (turn * outer + dl_quotient(tile, tiles)) * n20 + v19;
        p6[i21] = a9[k].a0;
        continue;
      }
      { const f64 v22 = p4[v19]; p4[v19] = v22 + a9[k].a0; }
    }
  }
}

extern "C" __global__ void __launch_bounds__(256) dl_map_2(dl_run *run, i64 site, dl_index iterations, dl_index v1, DL_GLOBAL(f64) p2, dl_index v3, DL_GLOBAL(f64) p4) {
  // map
  for (dl_index t = dl_first(); t < iterations; t += dl_stride()) {
    const dl_index v5 = t;
    f64 v6 = 0.0;
    for (dl_index v7 = 0, n8 = v1; v7 < n8; ++v7) {
      const f64 v9 = p2[v3*v7 + v5];
      v6 = v6 + v9;
    }
    { const f64 v10 = p4[v5]; p4[v5] = v10 + v6; }
  }
}
