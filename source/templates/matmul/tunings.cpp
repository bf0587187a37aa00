#include "schedule/access.hpp"
#include "schedule/limits.hpp"
#include "templates/matmul/candidates.hpp"

namespace vkfuse::schedule {

namespace {

std::vector<Tuning> thread_tunings(const Caps& caps) {
  std::vector<Tuning> all = {{.matmul = false}};
  for (int thread_m : {4, 8}) {
    for (int thread_n : {4, 8}) {
      for (int m : {16, 32, 64, 128, 256}) {
        for (int n : {16, 32, 64, 128, 256}) {
          for (int k : {16, 32}) {
            const TileShape shape{m, n, k, thread_m, thread_n};
            if (shape.workgroup() >= 8 && shape.workgroup() <= largest_workgroup(caps))
              all.push_back({.matmul = true, .tile = shape});
          }
        }
      }
    }
  }
  return all;
}

/// Parts of a subgroup of 16 x 16 products, which are most of what cooperative matrices offer.
std::vector<Tuning> cooperative_matrix_tunings(const Caps& caps, int threads) {
  std::vector<Tuning> all = {{.cooperative_matrix = false}};
  for (int own_m : {32, 64, 128}) {
    for (int own_n : {32, 64, 128}) {
      for (int m : {64, 128, 256}) {
        for (int n : {64, 128, 256}) {
          for (int k : {32, 64}) {
            const TileShape shape{m, n, k, own_m, own_n, threads};
            const bool whole = m % own_m == 0 && n % own_n == 0 && own_m * own_n <= 8192;
            if (whole && shape.owners() >= 4 && shape.owners() <= 8 && shape.workgroup() <= largest_workgroup(caps))
              all.push_back({.matmul = true, .tile = shape, .cooperative_matrix = true});
          }
        }
      }
    }
  }
  return all;
}

}  // namespace

std::vector<Tuning> matmul_tunings(const Schedule& standard, const Caps& caps) {
  const auto& params = standard.as<MatmulParams>();
  if (params.mma() == nullptr) return thread_tunings(caps);
  std::vector<Tuning> all = cooperative_matrix_tunings(caps, static_cast<int>(caps.subgroup.size));
  if (params.lane_fragments())
    all.push_back({.matmul = true, .matrix_scope = MatrixScope::subgroups, .cooperative_matrix = true});
  return all;
}

}  // namespace vkfuse::schedule
