// Collectives and annotations, by the names of the C++ API.

#include "vkfuse/collectives.hpp"
#include "bind.hpp"
#include "device.hpp"

namespace vkfuse::python {

using namespace nb::literals;

namespace {

Join to_join(const std::string& name) {
  constexpr std::string_view names[] = {"sum", "max", "min"};
  for (std::size_t i = 0; i < std::size(names); ++i) {
    if (name == names[i]) return static_cast<Join>(i);
  }
  throw nb::value_error(("There is no way to join '" + name + "'; there are: sum, max, min.").c_str());
}

/// A function of one tensor.
template <typename Call>
nb::object of(nb::handle x, Call call) {
  const Tensor operand = to_tensor(x, nullptr);
  return made_of({operand}, [&] { return call(operand); });
}

}  // namespace

void bind_collectives(nb::module_& module) {
  const auto stride = nb::arg("stride") = 1;
  module.def(
      "all_reduce",
      [](nb::handle x, int ranks, const std::string& join, int apart) {
        const Join how = to_join(join);
        return of(x, [&](const Tensor& one) { return all_reduce(one, how, {ranks, apart}); });
      },
      "x"_a, "ranks"_a, "join"_a = "sum", stride,
      "The values of a group of ranks, `stride` apart, joined element by element: by sum, max or min.");
  module.def(
      "all_reduce_mean",
      [](nb::handle x, int ranks, int apart) {
        return of(x, [&](const Tensor& one) { return all_reduce_mean(one, {ranks, apart}); });
      },
      "x"_a, "ranks"_a, stride, "The mean of the values of a group of ranks.");
  module.def(
      "reduce_scatter",
      [](nb::handle x, int axis, int ranks, const std::string& join, int apart) {
        const Join how = to_join(join);
        return of(x, [&](const Tensor& one) { return reduce_scatter(one, how, axis, {ranks, apart}); });
      },
      "x"_a, "axis"_a, "ranks"_a, "join"_a = "sum", stride,
      "This rank's part along an axis of what all_reduce would give.");
  module.def(
      "all_gather",
      [](nb::handle x, int axis, int ranks, int apart) {
        return of(x, [&](const Tensor& one) { return all_gather(one, axis, {ranks, apart}); });
      },
      "x"_a, "axis"_a, "ranks"_a, stride, "The values of a group of ranks side by side along an axis.");
  module.def(
      "all_to_all",
      [](nb::handle x, int split, int concat, int ranks, int apart) {
        return of(x, [&](const Tensor& one) { return all_to_all(one, split, concat, {ranks, apart}); });
      },
      "x"_a, "split"_a, "concat"_a, "ranks"_a, stride,
      "Part i along the axis `split` goes to rank i of the group; what arrives is put together along `concat`.");
  module.def(
      "broadcast_from",
      [](nb::handle x, int root, int ranks, int apart) {
        return of(x, [&](const Tensor& one) { return broadcast_from(one, root, {ranks, apart}); });
      },
      "x"_a, "root"_a, "ranks"_a, stride, "The value of one rank of the group.");
  module.def(
      "send_receive",
      [](nb::handle x, const std::vector<int>& from, int apart) {
        return of(x, [&](const Tensor& one) {
          return send_receive(one, from, {static_cast<int>(from.size()), apart});
        });
      },
      "x"_a, "senders"_a, stride, "The value of rank senders[i] of the group on rank i, or zeros where that is -1.");
  module.def(
      "shard",
      [](nb::handle x, int axis, int mesh_axis) {
        return of(x, [&](const Tensor& one) { return shard(one, axis, mesh_axis); });
      },
      "x"_a, "axis"_a, "mesh_axis"_a, "x, divided along an axis over an axis of the mesh; on one device, x.");
  module.def(
      "replicate", [](nb::handle x) { return of(x, [](const Tensor& one) { return replicate(one); }); }, "x"_a,
      "x, whole on every rank.");
  module.def(
      "at_stage",
      [](nb::handle x, int stage, int mesh_axis) {
        return of(x, [&](const Tensor& one) { return at_stage(one, stage, mesh_axis); });
      },
      "x"_a, "stage"_a, "mesh_axis"_a,
      "x on a stage of a pipeline along an axis of the mesh, and with it what is computed of it; on one device, x.");
  module.def(
      "micro_batch",
      [](nb::handle x, int axis) { return of(x, [&](const Tensor& one) { return micro_batch(one, axis); }); }, "x"_a,
      "axis"_a, "x, worked on in micro-batches along an axis; on one device, x.");
}

}  // namespace vkfuse::python
