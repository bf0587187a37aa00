// Networks over images: convolutions, pools, norms and what stands between them, as they are and with channels last.
#include <gtest/gtest.h>

#include "fuzz/forced.hpp"
#include "fuzz/harness.hpp"
#include "passes/passes.hpp"
#include "support/images.hpp"

namespace vkfuse::test {
namespace {

/// With the channels of convolutions last, which GPUs alone gain by.
ir::Graph with_channels_last(const ir::Graph& graph) {
  const ir::Graph simple = must(passes::run_pipeline(graph));
  const auto made = must(passes::put_channels_last(simple));
  if (!made) return simple;
  must(ir::verify(made->graph));
  return made->graph;
}

Forced draw_forced_for_images(Random& random) {
  static const std::vector<Forced> blocks = {
      {" stencil=8,4,1", {.stencil = schedule::StencilShape{8, 4, 1}}},
      {" stencil=8,2,2", {.stencil = schedule::StencilShape{8, 2, 2}}},
      {" stencil=16,2,1", {.stencil = schedule::StencilShape{16, 2, 1}}},
      {" stencil=4,7,1", {.stencil = schedule::StencilShape{4, 7, 1}}},
      {" stencil=2,3,2", {.stencil = schedule::StencilShape{2, 3, 2}}},
  };
  if (random.chance(50)) return Forced{"", {}};
  return random.chance(50) ? random.pick(blocks) : draw_schedule(random);
}

std::pair<Case, Way> draw_images(std::uint64_t seed) {
  Random random(seed_of(seed, "way"));
  const std::size_t place = random.below(100);
  const Forced forced = draw_forced_for_images(random);
  const bool last = random.chance(60);
  Way way;
  way.how.device = place < 10 ? &device_without_subgroups() : place < 20 ? &device_with_low_limits() : &device();
  way.how.numerics = random.chance(20) ? Numerics::strict : Numerics::standard;
  way.how.tuning = forced.tuning;
  const bool as_gpu = place >= 20 && random.chance(50) && plan_as_gpu(way.how);
  way.text = std::string(last ? " channels last" : "") + (as_gpu ? " as a GPU" : "") +
             (place < 10   ? " no subgroups"
              : place < 20 ? " low limits"
                           : "") +
             forced.name;
  if (last) way.rewrite = with_channels_last;
  way.unfused = random.chance(20);
  way.fewer_bytes = false;
  way.many_sizes = true;
  return {random_images(seed), way};
}

TEST(Fuzz, Images) { run_cases({"Fuzz.Images", 1, 12, draw_images}); }

}  // namespace
}  // namespace vkfuse::test
