#pragma once

#include <cmath>

namespace dpo::loss {

// A dual number: a value and its derivatives with respect to the two log-probabilities of a pair. A formula
// written with it yields its exact gradient along with its value (forward-mode differentiation).
struct Dual {
  double value = 0;
  double by_chosen = 0;
  double by_rejected = 0;

  Dual(double v = 0) : value(v) {}  // a constant; implicit, so that formulas read as on paper
  Dual(double v, double c, double r) : value(v), by_chosen(c), by_rejected(r) {}
};

// Returns f(x), given f and its derivative at x.
inline Dual chain(const Dual& x, double value, double derivative) {
  return {value, derivative * x.by_chosen, derivative * x.by_rejected};
}

inline Dual operator+(const Dual& a, const Dual& b) {
  return {a.value + b.value, a.by_chosen + b.by_chosen, a.by_rejected + b.by_rejected};
}
inline Dual operator-(const Dual& a) { return {-a.value, -a.by_chosen, -a.by_rejected}; }
inline Dual operator-(const Dual& a, const Dual& b) { return a + -b; }
inline Dual operator*(const Dual& a, const Dual& b) {
  return {a.value * b.value, a.by_chosen * b.value + a.value * b.by_chosen,
          a.by_rejected * b.value + a.value * b.by_rejected};
}
inline Dual operator/(const Dual& a, double b) { return {a.value / b, a.by_chosen / b, a.by_rejected / b}; }

inline double sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
inline double log_sigmoid(double x) { return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x))); }

// Computes log(1 - e^x) for x < 0 without cancellation.
inline double log1mexp(double x) {
  constexpr double kLog2 = 0.6931471805599453;
  return x > -kLog2 ? std::log(-std::expm1(x)) : std::log1p(-std::exp(x));
}

inline Dual exp(const Dual& x) { return chain(x, std::exp(x.value), std::exp(x.value)); }
inline Dual sigmoid(const Dual& x) {
  const double s = sigmoid(x.value);
  return chain(x, s, s * (1 - s));
}
inline Dual log_sigmoid(const Dual& x) { return chain(x, log_sigmoid(x.value), sigmoid(-x.value)); }
inline Dual log1mexp(const Dual& x) { return chain(x, log1mexp(x.value), 1 / -std::expm1(-x.value)); }
inline Dual square(const Dual& x) { return x * x; }
inline Dual relu(const Dual& x) { return x.value > 0 ? x : Dual(0); }

}  // namespace dpo::loss
