// Graph -> graph functions. pipeline.cpp lists them in order.
#pragma once

#include "ir/graph.hpp"

namespace vkfuse::passes {

/// A graph that was made of another one, and where each node of that one has its value here; nothing where it has none.
struct Rewritten {
  ir::Graph graph;
  std::vector<std::optional<ir::NodeId>> places;
};

/// Drops what no output needs; inputs stay, because they are part of the program's signature.
Result<ir::Graph> remove_dead(const ir::Graph& graph);

/// What a scatter compares at most: each row, or each element where updates are joined, with each update. Above it the
/// updates are sorted by their rows.
inline constexpr double kMostScatterComparisons = 1 << 24;

/// Annotations are their operands, and so are collectives of one rank. Any other collective is an error: a program of
/// several ranks is cut at them before (docs/parallel.md).
Result<ir::Graph> drop_single_ranks(const ir::Graph& graph);

/// Ops that have no kernel of their own, written in terms of others: scatter.
Result<ir::Graph> decompose(const ir::Graph& graph, double most_comparisons = kMostScatterComparisons);

/// Rows that are written into a literal of one element, as a choice between the two: a literal is in no buffer.
Result<ir::Graph> write_out_updates(const ir::Graph& graph);

/// Ops whose operands are all literals of one element become literals. Not only to save work: drivers
/// fold them too, more exactly than the device computes, and then fused and unfused runs differ.
Result<ir::Graph> fold_literals(const ir::Graph& graph);

/// Drops copies and views that change nothing, unless a copy is a result; makes one of two reshapes, or permutes, in a
/// row.
Result<ir::Graph> drop_identities(const ir::Graph& graph);

/// Constants that count positions, or compare them, as the counters and comparisons they were made of; comparisons of
/// positions in i32; what is known of these for all positions; elements at positions that follow each other as views.
Result<ir::Graph> name_positions(const ir::Graph& graph);

/// Sums of f32 and f64 that are divided by the number of their elements become reduce_mean, which rounds less.
Result<ir::Graph> name_means(const ir::Graph& graph);

/// Sums of exponentials about a maximum, or about 0 where that is not finite, as log-sum-exp is written, become those
/// of a softmax.
Result<ir::Graph> unguard_sums(const ir::Graph& graph);

/// Products with the order of operands that their readers ask for: where all of these see an axis of the first operand
/// as the innermost, it becomes the second.
Result<ir::Graph> order_dot_operands(const ir::Graph& graph);

/// Constant factors whose rows begin at no multiple of 16 bytes, with the contracted axis as their last where that
/// makes them begin so. Those of fewer bytes are in a cache whatever their form.
Result<ir::Graph> pack_factors(const ir::Graph& graph, std::int64_t least_bytes = 64 << 10);

/// One node for equal computations, and one order of nodes and of operands of commutative ops for all graphs that
/// compute the same from inputs of the same names. Inputs are moved too. Without `reorder` everything stays where it
/// is, and equal nodes are still one.
Result<ir::Graph> canonicalize(const ir::Graph& graph, bool reorder = true);

/// Operands of kernels that the user wrote are buffers: a view, a position or a literal among them is copied into one.
Result<ir::Graph> store_operands(const ir::Graph& graph);

/// Windows of a value that a permute has turned, so that other elements are side by side, are windows of a copy: a
/// kernel may store it, as views are not stored, where windows would gather elements that are apart.
Result<ir::Graph> copy_turned_images(const ir::Graph& graph);

/// Results of a contraction that a permute takes to the order in which another one reads rows, as tokens of which each
/// has all heads, are a copy: they may be stored in that order. Without it rows are apart in memory, and tiles that go
/// over the end of a run of them have no single stride.
Result<ir::Graph> copy_parted_rows(const ir::Graph& graph);

/// Both.
Result<ir::Graph> copy_views(const ir::Graph& graph);

/// A concatenation of more values than a kernel with one result and so many buffers can read, or of more operands than
/// kernels choose between (KernelBudget), becomes concatenations of fewer; one of a single value, again and again, a
/// broadcast. Nothing where there is none. Not of run_pipeline(), which knows no device.
Result<std::optional<Rewritten>> limit_concats(const ir::Graph& graph, std::uint32_t buffers);
/// The same of a form of a graph, if there is one.
Result<std::optional<Rewritten>> limit_concats_of(Result<std::optional<Rewritten>> form, std::uint32_t buffers);

/// An output that is an input, a constant or the value of an earlier output becomes a view of it: every output is a
/// node of its own, and the plan decides whether a kernel writes it.
Result<ir::Graph> separate_outputs(const ir::Graph& graph);

/// Norms after contractions whose readers are contractions, or join the results of others: with partial statistics,
/// one for each block of a row, which readers join. Nothing where there are none. Not of run_pipeline(): the plan tries
/// it.
Result<std::optional<Rewritten>> partial_statistics(const ir::Graph& graph);

/// The same of the maxima and sums of exponentials of a contraction's rows of which nothing else is made but elements
/// at positions that a tensor has, as of a cross-entropy.
Result<std::optional<Rewritten>> split_softmax(const ir::Graph& graph);

/// Products of one value with several others, which do not meet element by element, as one product with all of these
/// side by side. Nothing where there are none. Not of run_pipeline(): the plan tries it.
Result<std::optional<Rewritten>> merge_matmuls(const ir::Graph& graph);

/// What large products (ir/large_products.hpp) lead to, once for each contraction that reads it. Nothing where none
/// leads to two. Not of run_pipeline(): the plan tries it.
Result<std::optional<Rewritten>> recompute_products(const ir::Graph& graph);

/// Dense convolutions, and what is computed of their results, with channels as the last axis: their taps are then read
/// as vectors. Nothing where no convolution has taps and a multiple of 8 channels. Not of run_pipeline(): the plan
/// tries it.
Result<std::optional<Rewritten>> put_channels_last(const ir::Graph& graph);

/// Which rows pad_chosen_rows makes longer, and pad_rows as these are.
struct RowsToPad {
  double least_multiplications = 1 << 26;  ///< of the product: planning once more takes time
  double most_padding = 1.0 / 64;          ///< what is added, as a part of the row
};

/// Rows of large products, and what products and reductions make of them, as multiples of 16 bytes: padded with
/// elements that no result depends on. Nothing where all are. Not of run_pipeline(): the plan tries it.
Result<std::optional<Rewritten>> pad_chosen_rows(const ir::Graph& graph, const RowsToPad& which);
Result<std::optional<Rewritten>> pad_rows(const ir::Graph& graph);

/// partial_statistics and split_softmax.
Result<std::optional<Rewritten>> split_rows(const ir::Graph& graph);

/// Every other graph that a plan of this one may turn out to be of, where a kernel has so many buffers: with any of
/// recompute_products, put_channels_last, merge_matmuls, split_rows and pad_rows, in this order. What cannot be made is
/// left out, as the plan leaves it.
std::vector<ir::Graph> alternative_graphs(const ir::Graph& graph, std::uint32_t buffers);

struct Options {
  bool identities = true;                                     ///< drop_identities
  bool reorder = true;                                        ///< of canonicalize
  double most_scatter_comparisons = kMostScatterComparisons;  ///< of decompose
};

/// All of them, in order, verified after each in debug builds.
Result<ir::Graph> run_pipeline(const ir::Graph& graph, const Options& options = {});

}  // namespace vkfuse::passes
