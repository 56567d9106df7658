// Narrow indices as kernels see them: a number that is too large to be one is reported, also in the midst of a sum.
#pragma once
#include "threads.h"

namespace emulation {
class Index {
  long long value;

  template <class T> static constexpr bool is_number = std::is_integral_v<T> || std::is_enum_v<T>;
  // of an index and another number
  template <class T> using Result = std::conditional_t<sizeof(T) == 8 && !std::is_same_v<T, Index>, long long, Index>;

 public:
  Index() : value(0) {}
  template <class T, class = std::enable_if_t<is_number<T>>> Index(T x) : value((long long)x) {
    if (value > largest_index || value < -largest_index) wrong("an index is %lld, which is too large", value);
  }
  static Index given(int x) {
    if (x > largest_index || x < -largest_index) complain("an index is given that is %d, which is too large", x);
    Index made;
    made.value = x;
    return made;
  }
  operator long long() const { return value; }
  Index operator-() const { return -value; }
  Index &operator++() { return *this = value + 1; }
  template <class T> Index &operator+=(T x) { return *this = value + (long long)x; }

#define DL_OPERATOR(op) \
  friend Index operator op(Index x, Index y) { return x.value op y.value; } \
  template <class T, class = std::enable_if_t<is_number<T>>> friend Result<T> operator op(Index x, T y) { \
    return x.value op (long long)y; \
  } \
  template <class T, class = std::enable_if_t<is_number<T>>> friend Result<T> operator op(T x, Index y) { \
    return (long long)x op y.value; \
  }
  DL_OPERATOR(+)
  DL_OPERATOR(-)
  DL_OPERATOR(*)
  DL_OPERATOR(/)
  DL_OPERATOR(%)
#undef DL_OPERATOR
};
}  // namespace emulation
