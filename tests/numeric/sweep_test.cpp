// Every op row, on every dtype, on the device, against the row's own reference and error bound.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernel/printer.hpp"
#include "lowering/expressions.hpp"
#include "numeric/compare.hpp"
#include "numeric/operands.hpp"
#include "numeric/truth.hpp"

namespace vkfuse::numeric {
namespace {

struct Form {
  DType dtype;
  bool native_int64;
  bool native_exp = false;
};

std::string name_of_form(const testing::TestParamInfo<Form>& info) {
  const bool wide = size_of(info.param.dtype) == 8 && is_integer(info.param.dtype);
  return std::string(name_of(info.param.dtype)) + (info.param.native_exp     ? "_native_exp"
                                                   : !wide                   ? ""
                                                   : info.param.native_int64 ? "_native"
                                                                             : "_pair");
}

Job job_for(const ops::OpRow& row, Form form) {
  Job job;
  job.name = std::string(row.name) + "." + std::string(name_of(form.dtype));
  job.operand_dtypes.assign(static_cast<std::size_t>(row.arity), form.dtype);
  if (row.signature == ops::Signature::select) job.operand_dtypes[0] = DType::boolean;
  job.result_dtype = row.signature == ops::Signature::compare ? DType::boolean : form.dtype;
  const lowering::Code names[] = {"x0", "x1", "x2"};
  const lowering::Dialect dialect{
      .native_int64 = form.native_int64, .native_exp = form.native_exp, .keeps_nan = form.native_exp};
  const lowering::Code expression =
      lowering::expression(row, form.dtype, dialect, std::span(names).first(job.operand_dtypes.size()));
  if (expression.empty()) return job;
  job.expression = ops::narrow(job.result_dtype, lowering::Printer({}, nullptr).text(expression));
  job.operands = operands_for(job.operand_dtypes, row.low, row.high);
  return job;
}

/// What the row allows the reference is not the device's where the truth is known.
void compare_with_truth(const ops::OpRow& row, std::size_t i, const double* x, Comparer& compare) {
  const long double want = truth_of(row)(x);
  constexpr double kLargest = std::numeric_limits<double>::max();
  const double y = std::isinf(want) ? row.real(x) : std::clamp(static_cast<double>(want), -kLargest, kLargest);
  double bound = ops::own_error(row, DType::f64, x, y);
  if (wider_truth() && std::isfinite(y) && bound > 0) bound -= reference_error(row, y);
  compare.expect_float(i, {want, bound});
  if (std::abs(want) < std::numeric_limits<double>::min()) compare.expect_sign_of_zero(i, want);
}

void compare_floats(const ops::OpRow& row, const Job& job, DType dtype) {
  Comparer compare(job);
  const bool is_measured = dtype == DType::f64 && truth_of(row) != nullptr;
  for (std::size_t i = 0; i < job.results.size(); ++i) {
    double x[3] = {};
    for (std::size_t k = 0; k < job.operands.size(); ++k) {
      x[k] = job.operand_dtypes[k] == DType::boolean ? static_cast<double>(job.operands[k][i].integer)
                                                     : job.operands[k][i].real;
    }
    const double y = row.real(x);
    const double bound = ops::own_error(row, dtype, x, y);
    if (is_measured) {
      compare_with_truth(row, i, x, compare);
    } else if (job.result_dtype != DType::boolean) {
      compare.expect_float(i, {y, bound});
    } else if (bound == 0) {
      compare.expect_integer(i, y != 0);
    }
  }
  compare.report();
}

void compare_integers(const ops::OpRow& row, const Job& job, DType dtype) {
  Comparer compare(job);
  for (std::size_t i = 0; i < job.results.size(); ++i) {
    std::int64_t x[3] = {};
    for (std::size_t k = 0; k < job.operands.size(); ++k) x[k] = job.operands[k][i].integer;
    const std::int64_t want = ops::wrap(job.result_dtype, row.integer(x, dtype));
    // A u32 result comes back zero-extended, a narrower signed one sign-extended: as wrap() leaves it.
    compare.expect_integer(i, want);
  }
  compare.report();
}

class Sweep : public testing::TestWithParam<Form> {};

TEST_P(Sweep, EveryRowIsWithinItsBound) {
  const Form form = GetParam();
  if (!offers(form.dtype, form.native_int64)) GTEST_SKIP() << "the device does not compute with this type";
  if (form.native_exp && !keeps_nan_in_exp())
    GTEST_SKIP() << "the self-test does not show exponentials of NaN to be NaN";
  std::vector<Job> jobs;
  std::vector<const ops::OpRow*> rows;
  for (const ops::OpRow& row : ops::table()) {
    if (row.cls != ops::OpClass::elementwise || (row.types & ops::bit(form.dtype)) == 0) continue;
    Job job = job_for(row, form);
    if (job.expression.empty()) continue;
    jobs.push_back(std::move(job));
    rows.push_back(&row);
  }
  run(jobs, form.native_int64, form.native_exp);
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    if (is_float(form.dtype)) {
      compare_floats(*rows[j], jobs[j], form.dtype);
    } else {
      compare_integers(*rows[j], jobs[j], form.dtype);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Sweep,
                         testing::Values(Form{DType::f32, false}, Form{DType::f16, false}, Form{DType::bf16, false},
                                         Form{DType::f64, false}, Form{DType::i8, false}, Form{DType::u8, false},
                                         Form{DType::i16, false}, Form{DType::u16, false}, Form{DType::i32, false},
                                         Form{DType::u32, false}, Form{DType::i64, false}, Form{DType::u64, false},
                                         Form{DType::i64, true}, Form{DType::u64, true}, Form{DType::boolean, false},
                                         Form{DType::f32, false, true}, Form{DType::f16, false, true},
                                         Form{DType::bf16, false, true}),
                         name_of_form);

TEST(ReferenceTest, OfF64IsWithinWhatBoundsAllowIt) {
  if (!wider_truth()) GTEST_SKIP() << "long double has no more bits than double here";
  for (const ops::OpRow& row : ops::table()) {
    const Truth truth = truth_of(row);
    if (truth == nullptr) continue;
    const std::vector<DType> dtypes(static_cast<std::size_t>(row.arity), DType::f64);
    const auto operands = operands_for(dtypes, row.low, row.high);
    for (std::size_t i = 0; i < operands[0].size(); ++i) {
      double x[3] = {};
      for (std::size_t k = 0; k < operands.size(); ++k) x[k] = operands[k][i].real;
      const double y = row.real(x);
      if (!std::isfinite(y)) continue;
      const auto apart = static_cast<double>(std::abs(y - truth(x)));
      ASSERT_LE(apart, reference_error(row, y) + 0x1p-1073) << row.name << "(" << x[0] << ")";
    }
  }
}

TEST(PhiloxTest, TheShaderMakesTheWordsOfTheHost) {
  Job job;
  job.name = "random";
  job.operand_dtypes = {DType::u64, DType::u64};
  job.result_dtype = DType::u32;
  const std::string names[] = {"x0", "x1"};
  job.expression = ops::expression(ops::row("random"), DType::u32, false, names);
  job.operands = operands_for(job.operand_dtypes, 0, 0);
  std::vector<Job> jobs = {std::move(job)};
  run(jobs, false);
  Comparer compare(jobs[0]);
  for (std::size_t i = 0; i < jobs[0].results.size(); ++i) {
    compare.expect_integer(i, ops::philox(static_cast<std::uint64_t>(jobs[0].operands[0][i].integer),
                                          static_cast<std::uint64_t>(jobs[0].operands[1][i].integer)));
  }
  compare.report();
}

}  // namespace
}  // namespace vkfuse::numeric
