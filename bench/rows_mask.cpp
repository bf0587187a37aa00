// Attention whose causal mask is written out, as exporters of models do, each beside a mask that is known to be causal.
#include <limits>

#include "row_groups.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::bench {

namespace {

/// [length, length] of booleans, by positions: whether a key is after the query, which may not see it.
Tensor is_later(const Dim& length) {
  return gt(Tensor::iota(DType::i64, {1, length}, 1), Tensor::iota(DType::i64, {length, 1}, 0));
}

/// [batch, heads, length, size] of each of q, k and v.
struct Operands {
  Tensor q, k, v;
  Operands(DType dtype, const Shape& shape)
      : q(Tensor::input("q", dtype, shape)), k(Tensor::input("k", dtype, shape)), v(Tensor::input("v", dtype, shape)) {}

  [[nodiscard]] Tensor scores() const {
    return matmul(q, k.transpose()) * (1 / std::sqrt(static_cast<double>(q.shape()[3].size())));
  }
  /// The product with v, of softmax in f32 as frameworks compute it.
  [[nodiscard]] Tensor weigh(const Tensor& scores) const {
    return matmul(softmax(scores.cast(DType::f32), -1).cast(v.dtype()), v);
  }
};

Built known(DType dtype, const Shape& shape) {
  const Operands of(dtype, shape);
  return {attention(of.q, of.k, of.v, {.causal = true})};
}

/// The least f16 where a key is later, else 0, stretched over the batch and added.
Built where_added(DType dtype, const Shape& shape) {
  const Operands of(dtype, shape);
  const Tensor mask = select(is_later(shape[2]), Tensor::scalar(dtype, -65504), Tensor::scalar(dtype, 0));
  const Tensor stretched = mask.reshape({1, 1, shape[2], shape[2]}).broadcast_to({shape[0], 1, shape[2], shape[2]});
  return framework_ops({of.weigh(of.scores() + stretched)});
}

/// Scores of later keys are replaced by minus infinity.
Built filled(DType dtype, const Shape& shape) {
  const Operands of(dtype, shape);
  const Tensor none = Tensor::scalar(dtype, -std::numeric_limits<double>::infinity());
  return framework_ops({of.weigh(select(is_later(shape[2]), none, of.scores()))});
}

/// Ones of a lower triangle as numbers: (1 - triangle) times a large negative number is added.
Built triangle_times(DType dtype, const Shape& shape) {
  const Operands of(dtype, shape);
  const Tensor triangle = logical_not(is_later(shape[2])).cast(dtype);
  return framework_ops({of.weigh(of.scores() + (1.0 - triangle) * -10000.0)});
}

/// Causal, and keys that padding fills are left out: data says which, for each sequence of the batch.
Built padded(DType dtype, const Shape& shape) {
  const Operands of(dtype, shape);
  const Tensor is_token = Tensor::input("tokens", DType::boolean, {shape[0], 1, 1, shape[2]});
  // A query sees itself at least: a row without a key has no softmax.
  const Tensor same = eq(Tensor::iota(DType::i64, {1, shape[2]}, 1), Tensor::iota(DType::i64, {shape[2], 1}, 0));
  const Tensor sees = logical_and(logical_not(is_later(shape[2])), logical_or(is_token, same));
  const Tensor mask = select(sees, Tensor::scalar(dtype, 0), Tensor::scalar(dtype, -65504));
  return framework_ops({of.weigh(of.scores() + mask)});
}

}  // namespace

std::vector<Row> mask_rows() {
  struct Form {
    const char* name;
    Built (*build)(DType, const Shape&);
    DType dtype = DType::f16;
    bool named = true;
  };
  const Form forms[] = {{"attention where mask f16", where_added, DType::f16, false},
                        {"attention filled mask f16", filled},
                        {"attention filled mask bf16", filled, DType::bf16},
                        {"attention triangle mask f16", triangle_times},
                        {"attention padded mask f16", padded}};
  std::vector<Row> all;
  for (const Form& form : forms) {
    all.push_back({form.name,
                   "attention",
                   form.dtype,
                   {2, 32, 4096, 128},
                   form.build,
                   {.divide = {0, 1, 2}, .named = form.named, .wide_bounds = true},
                   Beside{"causal", known}});
  }
  return all;
}

}  // namespace vkfuse::bench
