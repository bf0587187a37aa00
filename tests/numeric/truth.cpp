#include "numeric/truth.hpp"

#include <cfloat>
#include <cmath>
#include <map>

namespace vkfuse::numeric {
namespace {

using Wide = long double;

Wide wide_sigmoid(const double* x) {
  const Wide small = std::exp(-std::abs(Wide(x[0])));
  return (x[0] < 0 ? small : 1) / (1 + small);
}

const std::map<std::string_view, Truth>& truths() {
  static const std::map<std::string_view, Truth> all = {
      {"exp", [](const double* x) { return std::exp(Wide(x[0])); }},
      {"exp2", [](const double* x) { return std::exp2(Wide(x[0])); }},
      {"expm1", [](const double* x) { return std::expm1(Wide(x[0])); }},
      {"log", [](const double* x) { return std::log(Wide(x[0])); }},
      {"log2", [](const double* x) { return std::log2(Wide(x[0])); }},
      {"log1p", [](const double* x) { return std::log1p(Wide(x[0])); }},
      {"sin", [](const double* x) { return std::sin(Wide(x[0])); }},
      {"cos", [](const double* x) { return std::cos(Wide(x[0])); }},
      {"tan", [](const double* x) { return std::tan(Wide(x[0])); }},
      {"asin", [](const double* x) { return std::asin(Wide(x[0])); }},
      {"acos", [](const double* x) { return std::acos(Wide(x[0])); }},
      {"atan", [](const double* x) { return std::atan(Wide(x[0])); }},
      {"atan2", [](const double* x) { return std::atan2(Wide(x[0]), Wide(x[1])); }},
      {"sinh", [](const double* x) { return std::sinh(Wide(x[0])); }},
      {"cosh", [](const double* x) { return std::cosh(Wide(x[0])); }},
      {"tanh", [](const double* x) { return std::tanh(Wide(x[0])); }},
      {"asinh", [](const double* x) { return std::asinh(Wide(x[0])); }},
      {"acosh", [](const double* x) { return std::acosh(Wide(x[0])); }},
      {"atanh", [](const double* x) { return std::atanh(Wide(x[0])); }},
      {"erf", [](const double* x) { return std::erf(Wide(x[0])); }},
      {"sigmoid", wide_sigmoid},
      {"pow", [](const double* x) { return std::pow(Wide(x[0]), Wide(x[1])); }},
  };
  return all;
}

}  // namespace

Truth truth_of(const ops::OpRow& row) {
  const auto found = truths().find(row.name);
  return found == truths().end() ? nullptr : found->second;
}

bool wider_truth() { return LDBL_MANT_DIG >= DBL_MANT_DIG + 8; }

double reference_error(const ops::OpRow& row, double y) {
  const bool reduces = row.name == "sin" || row.name == "cos" || row.name == "tan";
  return ops::kReferenceUnits * 0x1p-52 * std::abs(y) + (reduces ? ops::kReferenceReduction * (1 + y * y) : 0);
}

}  // namespace vkfuse::numeric
