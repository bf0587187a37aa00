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

/// This value on stage `stage` of a pipeline, counted from 0: on the ranks that are member `stage` along the axis
/// `mesh_axis` of the mesh that the program is compiled for. What is computed of it is there, too, until another
/// annotation: an op is on the latest stage of its operands, and what comes from an earlier one is sent. What follows
/// from no annotated value, as weights, is on each stage that reads it. An output that is annotated so is on its stage
/// alone; any other is on every rank. On one device it is the operand. ErrorCode::invalid_argument for a stage or an
/// axis below 0, and in compile_parallel() where the mesh has no such axis or stage, two annotations name other axes,
/// or `shard` divides a value over the axis of the stages.
///
///     Tensor h = layer(at_stage(x, 0, 0), w0);
///     Tensor y = layer(at_stage(h, 1, 0), w1);
Tensor at_stage(const Tensor& x, int stage, int mesh_axis);
/// This value, worked on in ParallelOptions::micro_batches equal parts along `axis`, counted from -1 backwards: so is
/// what follows from it, as far as ops keep the axis, and stages work on several parts at a time. What does not is
/// computed of the parts put together, and a sum along the axis of the sums of parts. On one device it is the operand.
/// ErrorCode::invalid_argument for no such axis, and in compile_parallel() where it is no multiple.
Tensor micro_batch(const Tensor& x, int axis);

}  // namespace VKFUSE_PUBLIC
