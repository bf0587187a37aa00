// What ranks do together: each rank runs a program, and a collective is a value that several of them make.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "vkfuse/tensor.hpp"
#include "vkfuse/visibility.hpp"

namespace vkfuse VKFUSE_PUBLIC {

/// The ranks that a collective is between: `count` of them, each `stride` after the one before. A job of more ranks has
/// several groups side by side: of 4 ranks, {2, 1} is (0, 1) and (2, 3), {2, 2} is (0, 2) and (1, 3). Rank r is member
/// r / stride % count of its group. Of one rank every collective is its operand.
struct Ranks {
  int count = 1;
  int stride = 1;
};

/// How elements of several ranks become one.
enum class Join : std::uint8_t { sum, max, min };

// Every rank calls the same collectives in the same order, on values of the same dtype and shape: compile_parallel()
// fails on each rank where one does not. Results have the same bits on each rank that has them.

/// The members' values joined element by element. f16 and bf16 are added up in f32 and rounded once.
Tensor all_reduce(const Tensor& x, Join join, Ranks ranks);
/// The sum divided by the number of members. Floats only.
Tensor all_reduce_mean(const Tensor& x, Ranks ranks);
/// Member i keeps part i along the axis of what all_reduce would give; the axis is a multiple of the members.
Tensor reduce_scatter(const Tensor& x, Join join, int axis, Ranks ranks);
/// The members' values side by side along an axis, in the order of the members.
Tensor all_gather(const Tensor& x, int axis, Ranks ranks);
/// Part i along the axis `split` goes to member i; what arrives is put together along `concat`.
Tensor all_to_all(const Tensor& x, int split, int concat, Ranks ranks);
/// The value of member `root`.
Tensor broadcast_from(const Tensor& x, int root, Ranks ranks);
/// Member i gets the value of member from[i], or zeros where that is -1. No member sends twice.
Tensor send_receive(const Tensor& x, std::vector<int> from, Ranks ranks);

/// This value, divided along `axis` over an axis of the mesh that the program is compiled for; counted from 0, and of
/// `axis` from -1 backwards. Annotations of one value add up. On one device it is the operand.
///
///     Tensor w = shard(Tensor::input("w", DType::f32, {4096, 14336}), 1, 0);
Tensor shard(const Tensor& x, int axis, int mesh_axis);
/// This value, whole on every rank.
Tensor replicate(const Tensor& x);

}  // namespace VKFUSE_PUBLIC
