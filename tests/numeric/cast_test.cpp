// Every cast and bitcast between dtypes, on the device, against the scalar conversions of the host.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "numeric/compare.hpp"
#include "numeric/operands.hpp"

namespace vkfuse::numeric {
namespace {

constexpr double kFlushed = 0x1p-126;  // subnormals of f32 may be lost wherever they are computed with

struct Form {
  DType from;
  bool native_int64;
};

std::string name_of_form(const testing::TestParamInfo<Form>& info) {
  return std::string(name_of(info.param.from)) + (info.param.native_int64 ? "_native" : "_pair");
}

double as_real(DType dtype, const Value& x) {
  if (is_float(dtype)) return x.real;
  return dtype == DType::u64 ? static_cast<double>(static_cast<std::uint64_t>(x.integer))
                             : static_cast<double>(x.integer);
}

Expected expected_float(DType from, DType to, const Value& x) {
  const double value = as_real(from, x);
  if (to == DType::f64)
    return {value, is_float(from) ? kFlushed : std::abs(value) > 0x1p53 ? std::abs(value) * 0x1p-52 : 0};
  if (from == DType::f64) return {value, to == DType::f32 ? std::abs(value) * 0x1p-23 + kFlushed : kFlushed};
  if (is_float(from)) return {value, 0};
  return {value, std::abs(value) > 0x1p24 ? std::abs(value) * 0x1p-23 : 0};
}

std::int64_t expected_integer(DType from, DType to, const Value& x) {
  return is_float(from) ? ops::saturate(to, x.real) : ops::wrap(to, x.integer);
}

std::uint64_t bits_of(DType dtype, const Value& x) {
  switch (dtype) {
    case DType::f64: return std::bit_cast<std::uint64_t>(x.real);
    case DType::f32: return std::bit_cast<std::uint32_t>(static_cast<float>(x.real));
    case DType::f16: return ops::f16_from(x.real);
    case DType::bf16: return ops::bf16_from(x.real);
    default: return static_cast<std::uint64_t>(x.integer);
  }
}

Value value_of(DType dtype, std::uint64_t bits) {
  switch (dtype) {
    case DType::f64: return {std::bit_cast<double>(bits), 0};
    case DType::f32: return {std::bit_cast<float>(static_cast<std::uint32_t>(bits)), 0};
    case DType::f16: return {ops::f16_to(static_cast<std::uint16_t>(bits)), 0};
    case DType::bf16: return {ops::bf16_to(static_cast<std::uint16_t>(bits)), 0};
    default: return {0, ops::wrap(dtype, static_cast<std::int64_t>(bits))};
  }
}

/// Jobs from one dtype to every other for which `wanted` holds.
template <typename Wanted, typename Expression>
std::vector<Job> jobs_from(const Form& form, const char* what, Wanted wanted, Expression expression) {
  std::vector<Job> jobs;
  const auto operands = operands_for({form.from}, -70000, 70000);
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto to = static_cast<DType>(i);
    if (!offers(to, form.native_int64) || !wanted(to)) continue;
    Job job;
    job.name = std::string(what) + "." + std::string(name_of(form.from)) + "." + std::string(name_of(to));
    job.operand_dtypes = {form.from};
    job.result_dtype = to;
    job.expression = expression(form.from, to, form.native_int64, "x0");
    job.operands = operands;
    jobs.push_back(std::move(job));
  }
  run(jobs, form.native_int64);
  return jobs;
}

class Casts : public testing::TestWithParam<Form> {};

TEST_P(Casts, AgreeWithTheHost) {
  const Form form = GetParam();
  if (!offers(form.from, form.native_int64)) GTEST_SKIP() << "the device does not compute with this type";
  for (const Job& job : jobs_from(
           form, "cast", [](DType) { return true; }, ops::cast_expression)) {
    Comparer compare(job);
    for (std::size_t i = 0; i < job.results.size(); ++i) {
      const Value& x = job.operands[0][i];
      if (is_float(job.result_dtype)) {
        compare.expect_float(i, expected_float(form.from, job.result_dtype, x));
      } else {
        compare.expect_integer(i, expected_integer(form.from, job.result_dtype, x));
      }
    }
    compare.report();
  }
}

TEST_P(Casts, KeepTheBitsWhenAsked) {
  const Form form = GetParam();
  if (!offers(form.from, form.native_int64)) GTEST_SKIP() << "the device does not compute with this type";
  if (form.from == DType::boolean) GTEST_SKIP() << "booleans have no bits to cast";
  const auto same_size = [&form](DType to) { return to != DType::boolean && size_of(to) == size_of(form.from); };
  for (const Job& job : jobs_from(form, "bitcast", same_size, ops::bitcast_expression)) {
    Comparer compare(job);
    for (std::size_t i = 0; i < job.results.size(); ++i) {
      const Value& x = job.operands[0][i];
      const Value want = value_of(job.result_dtype, bits_of(form.from, x));
      // Which NaN a wide float is, is not kept from host to device.
      if (is_float(form.from) && size_of(form.from) > 2 && std::isnan(x.real)) continue;
      if (is_float(job.result_dtype)) {
        compare.expect_float(i, {want.real, 0});
      } else {
        compare.expect_integer(i, want.integer);
      }
    }
    compare.report();
  }
}

std::vector<Form> forms() {
  std::vector<Form> all;
  for (const bool native : {false, true}) {
    for (int i = 0; i < kDTypeCount; ++i) all.push_back({static_cast<DType>(i), native});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Casts, testing::ValuesIn(forms()), name_of_form);

}  // namespace
}  // namespace vkfuse::numeric
