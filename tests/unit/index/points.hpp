// Expressions built twice, as expressions and as plain numbers at every point of a small space.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <vector>

#include "index/index.hpp"

namespace vkfuse::index {

/// Readable failures: GoogleTest would print the bytes.
inline void PrintTo(const Expr& expr, std::ostream* out) { *out << to_text(expr); }

}  // namespace vkfuse::index

namespace vkfuse::test {

using Number = std::int64_t;
using index::Expr;

/// All values of axes 0, 1, ... and data values 0, 1, ... of these sizes.
class Space {
 public:
  struct Point {
    std::map<index::AxisId, Number> axes;
    std::map<index::DataId, Number> data;
  };

  explicit Space(std::vector<Number> axes, std::vector<Number> data = {})
      : axes_(std::move(axes)), data_(std::move(data)) {
    points_.resize(1);
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      spread(axes_[i], [i](Point& point, Number value) { point.axes[static_cast<int>(i)] = value; });
    }
    for (std::size_t i = 0; i < data_.size(); ++i) {
      spread(data_[i], [i](Point& point, Number value) { point.data[static_cast<int>(i)] = value; });
    }
  }

  [[nodiscard]] const std::vector<Point>& points() const { return points_; }
  [[nodiscard]] const std::vector<Number>& axes() const { return axes_; }
  [[nodiscard]] const std::vector<Number>& data() const { return data_; }

 private:
  template <typename Set>
  void spread(Number size, const Set& set) {
    std::vector<Point> all;
    for (const Point& point : points_) {
      for (Number value = 0; value < size; ++value) set(all.emplace_back(point), value);
    }
    points_ = std::move(all);
  }

  std::vector<Number> axes_;
  std::vector<Number> data_;
  std::vector<Point> points_;
};

inline std::vector<Number> values_at(const Space& space, const Expr& expr) {
  std::vector<Number> values;
  for (const Space::Point& point : space.points()) values.push_back(index::evaluate(expr, point.axes, point.data));
  return values;
}

/// Rounded towards minus infinity, the slow and obvious way.
inline Number naive_quotient(Number value, Number divisor) {
  Number quotient = value / divisor;
  while (quotient * divisor > value) --quotient;
  return quotient;
}

/// An expression and what it must be at each point.
struct Twice {
  Expr expr;
  std::vector<Number> values;

  static Twice constant(const Space& space, Number value) {
    return {value, std::vector<Number>(space.points().size(), value)};
  }
  static Twice axis(const Space& space, int id) {
    Twice both{Expr::axis(id, space.axes()[static_cast<std::size_t>(id)]), {}};
    for (const Space::Point& point : space.points()) both.values.push_back(point.axes.at(id));
    return both;
  }
  static Twice data(const Space& space, int id) {
    Twice both{Expr::data(id, space.data()[static_cast<std::size_t>(id)]), {}};
    for (const Space::Point& point : space.points()) both.values.push_back(point.data.at(id));
    return both;
  }

  /// Empty if the expression has these values, else a sentence that names a point where it does not.
  [[nodiscard]] std::string difference(const Space& space) const {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Space::Point& point = space.points()[i];
      const Number got = index::evaluate(expr, point.axes, point.data);
      if (got == values[i]) continue;
      std::string at;
      for (const auto& [id, value] : point.axes) at += fmt::format(" a{}={}", id, value);
      for (const auto& [id, value] : point.data) at += fmt::format(" d{}={}", id, value);
      return fmt::format("The expression {} is {} at{}, where it must be {}.", index::to_text(expr), got, at,
                         values[i]);
    }
    return {};
  }
};

template <typename F>
Twice combine(Expr expr, const Twice& a, const Twice& b, const F& f) {
  Twice both{std::move(expr), a.values};
  for (std::size_t i = 0; i < both.values.size(); ++i) both.values[i] = f(a.values[i], b.values[i]);
  return both;
}
inline Twice operator+(const Twice& a, const Twice& b) {
  return combine(a.expr + b.expr, a, b, [](Number x, Number y) { return x + y; });
}
inline Twice operator-(const Twice& a, const Twice& b) {
  return combine(a.expr - b.expr, a, b, [](Number x, Number y) { return x - y; });
}
inline Twice operator*(const Twice& a, Number factor) {
  return combine(a.expr * factor, a, a, [&](Number x, Number) { return x * factor; });
}
inline Twice operator+(const Twice& a, Number constant) {
  return combine(a.expr + Expr(constant), a, a, [&](Number x, Number) { return x + constant; });
}
inline Twice operator/(const Twice& a, Number divisor) {
  return combine(index::floor_div(a.expr, divisor), a, a, [&](Number x, Number) { return naive_quotient(x, divisor); });
}
inline Twice operator%(const Twice& a, Number divisor) {
  return combine(index::floor_mod(a.expr, divisor), a, a,
                 [&](Number x, Number) { return x - naive_quotient(x, divisor) * divisor; });
}

inline bool has_division(const Expr& expr) {
  for (const Expr::Term& term : expr.terms()) {
    if (term.atom->kind == index::Atom::Kind::div || term.atom->kind == index::Atom::Kind::mod) return true;
  }
  return false;
}

inline std::optional<std::uint64_t> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return std::strtoull(text, nullptr, 10);
}

/// The seeds of a random test: VKFUSE_SEED alone, or VKFUSE_FUZZ_CASES of them.
inline std::vector<std::uint64_t> seeds(std::uint64_t cases) {
  if (const auto one = number_in("VKFUSE_SEED")) return {*one};
  std::vector<std::uint64_t> all(number_in("VKFUSE_FUZZ_CASES").value_or(cases));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  return all;
}

/// The line that repeats one case of the test that runs.
inline std::string replay(std::uint64_t seed) {
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  return fmt::format("REPLAY: VKFUSE_SEED={} vkfuse-test-unit --gtest_filter={}.{}\n", seed, info->test_suite_name(),
                     info->name());
}

}  // namespace vkfuse::test
