#include "runtime/self_test/self_test.hpp"

#include "runtime/self_test/tests.hpp"

namespace vkfuse::runtime {

namespace {

struct TierTest {
  FeatureTier tier;
  Result<std::string> (*run)(OpenDevice&);
};

constexpr TierTest kTierTests[] = {
    {FeatureTier::subgroup, test_subgroups},
    {FeatureTier::float16, test_float16},
    {FeatureTier::dot_product, test_integer_dot},
    {FeatureTier::cooperative_matrix,
     [](OpenDevice& opened) { return test_matrices(opened, *matrix_of(opened.caps(), DType::f16, DType::f32)); }},
    {FeatureTier::cooperative_matrix2, test_matrix_functions},
};

bool is_device_gone(const Error& error) {
  return error.code == ErrorCode::device_lost || error.code == ErrorCode::no_device;
}

/// What a test says; a feature tier that cannot even be compiled or run is not used, but a lost device is another
/// matter.
Result<std::string> found(Result<std::string> result) {
  if (result || is_device_gone(result.error())) return result;
  return "The self-test could not run: " + result.error().message;
}

}  // namespace

Result<std::string> self_test(OpenDevice& opened, FeatureTier tier) {
  for (const TierTest& test : kTierTests) {
    if (test.tier == tier) return found(test.run(opened));
  }
  return std::string();
}

Result<std::string> self_test_matrices(OpenDevice& opened, const MatrixShape& shape) {
  return found(test_matrices(opened, shape));
}

Result<std::string> self_test_sub_byte(OpenDevice& opened, const MatrixShape& shape) {
  return found(test_sub_byte(opened, shape));
}

Result<std::string> self_test_lane_fragments(OpenDevice& opened, const MatrixShape& shape) {
  return found(test_lane_fragments(opened, shape));
}

Result<std::string> self_test_workgroup_tile(OpenDevice& opened, DType dtype, const WorkgroupTile& tile) {
  return found(test_workgroup_tile(opened, dtype, tile));
}

Result<bool> test_exp_of_nan(OpenDevice& opened) {
  const auto verdict = test_exponentials(opened);
  if (verdict) return verdict->empty();
  if (is_device_gone(verdict.error())) return verdict.error();
  return false;
}

}  // namespace vkfuse::runtime
