#pragma once

#include <cmath>

namespace dpo::loss {

// A number with its derivatives by the two log-probabilities of a pair. Written with it, a formula gives its
// exact gradient along with its value.
struct Dual {
  double value = 0;
  double by_better = 0;
  double by_worse = 0;

  Dual(double v = 0) : value(v) {}  // a constant; implicit, so that formulas read as on paper
  Dual(double v, double b, double w) : value(v), by_better(b), by_worse(w) {}
};

// f(x), given f and its derivative at x.
inline Dual chain(const Dual& x, double value, double derivative) {
  return {value, derivative * x.by_better, derivative * x.by_worse};
}

inline Dual operator+(const Dual& a, const Dual& b) {
  return {a.value + b.value, a.by_better + b.by_better, a.by_worse + b.by_worse};
}
inline Dual operator-(const Dual& a) { return {-a.value, -a.by_better, -a.by_worse}; }
inline Dual operator-(const Dual& a, const Dual& b) { return a + -b; }
inline Dual operator*(const Dual& a, const Dual& b) {
  return {a.value * b.value, a.by_better * b.value + a.value * b.by_better,
          a.by_worse * b.value + a.value * b.by_worse};
}
inline Dual operator/(const Dual& a, double b) { return {a.value / b, a.by_better / b, a.by_worse / b}; }

inline double logistic(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
inline double log_logistic(double x) { return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x))); }

// log(1 - e^x) for x < 0 without cancellation.
inline double log1mexp(double x) {
  constexpr double kLog2 = 0.6931471805599453;
  return x > -kLog2 ? std::log(-std::expm1(x)) : std::log1p(-std::exp(x));
}

inline Dual exp(const Dual& x) { return chain(x, std::exp(x.value), std::exp(x.value)); }
inline Dual logistic(const Dual& x) {
  const double s = logistic(x.value);
  return chain(x, s, s * (1 - s));
}
inline Dual log_logistic(const Dual& x) { return chain(x, log_logistic(x.value), logistic(-x.value)); }
inline Dual log1mexp(const Dual& x) { return chain(x, log1mexp(x.value), 1 / -std::expm1(-x.value)); }
inline Dual square(const Dual& x) { return x * x; }
inline Dual relu(const Dual& x) { return x.value > 0 ? x : Dual(0); }

}  // namespace dpo::loss
