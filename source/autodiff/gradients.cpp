// From the outputs back to what they depend on: each node once, after all that reads it.
#include "vkfuse/gradients.hpp"

#include <unordered_map>

#include "autodiff/rules.hpp"

namespace vkfuse {

namespace {

using autodiff::Kind;

std::string type_text(const Tensor& x) { return to_text(TensorType{x.dtype(), x.shape()}); }

/// What gradients() takes a node for a function of: nothing, where its gradient stops or its elements are computed.
std::span<const Tensor> sources_of(const Tensor::Node& node) {
  if (node.value != nullptr) return {};
  return node.gradient != nullptr ? node.gradient->operands : node.operands;
}

class Walk {
 public:
  explicit Walk(std::span<const Tensor> wrt) {
    for (const Tensor& tensor : wrt) found_[tensor.node().get()].depends = true;
  }

  /// Notes everything that leads to the output, operands first.
  void visit(const Tensor& output) {
    std::vector<Tensor> stack{output};
    while (!stack.empty()) {
      const Tensor tensor = stack.back();
      Found& found = found_[tensor.node().get()];
      if (found.is_placed) {
        stack.pop_back();
        continue;
      }
      const std::span<const Tensor> sources = sources_of(*tensor.node());
      if (!found.is_open) {
        found.is_open = true;
        for (const Tensor& source : sources) {
          if (is_float(source.dtype()) && !found_[source.node().get()].is_placed) stack.push_back(source);
        }
        continue;
      }
      stack.pop_back();
      bool depends = found.depends;
      if (passes(*tensor.node()))
        for (const Tensor& source : sources) depends = depends || depends_on_wrt(source);
      Found& same = found_[tensor.node().get()];
      same.depends = depends;
      same.is_placed = true;
      order_.push_back(tensor);
    }
  }

  [[nodiscard]] Result<void> add(const Tensor& to, Tensor cotangent) {
    if (!cotangent.valid()) return Error(cotangent.error());
    std::optional<Tensor>& sum = found_[to.node().get()].cotangent;
    sum = sum ? *sum + cotangent : std::move(cotangent);
    return {};
  }

  /// Hands cotangents on from each node to its operands.
  Result<void> run() {
    for (std::size_t i = order_.size(); i-- > 0;) {
      const Tensor& y = order_[i];
      const Found& found = found_[y.node().get()];
      if (!found.cotangent || !found.depends) continue;
      const Tensor g = *found.cotangent;
      VKF_CHECK_OK(y.node()->gradient != nullptr ? run_own(y, g) : run_rule(y, g));
    }
    return {};
  }

  [[nodiscard]] Tensor of(const Tensor& wrt) {
    const std::optional<Tensor>& sum = found_[wrt.node().get()].cotangent;
    return sum ? *sum : autodiff::zeros(wrt.dtype(), wrt.shape());
  }

 private:
  struct Found {
    bool is_open = false;    ///< its operands are on the stack
    bool is_placed = false;  ///< it is in the order
    bool depends = false;    ///< on one of `wrt`, by floats
    std::optional<Tensor> cotangent;
  };

  /// Whether a gradient goes on from a node to what it was computed from.
  [[nodiscard]] static bool passes(const Tensor::Node& node) {
    return node.gradient != nullptr || autodiff::row_of(*node.op).kind == Kind::rule ||
           autodiff::row_of(*node.op).kind == Kind::refused;
  }

  [[nodiscard]] bool depends_on_wrt(const Tensor& source) {
    return is_float(source.dtype()) && found_[source.node().get()].depends;
  }

  Result<void> run_rule(const Tensor& y, const Tensor& g) {
    const Tensor::Node& node = *y.node();
    const autodiff::GradientRow& row = autodiff::row_of(*node.op);
    const std::span<const Tensor> operands = sources_of(node);
    const autodiff::Call call{y, operands, g, is_forward_};
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!depends_on_wrt(operands[i])) continue;
      if (row.kind == Kind::refused)
        return unsupported("'{}' of {} has no gradient: {}.", node.op->name, type_text(operands[i]), row.doc);
      VKF_CHECK_OK(add_one(node.op->name, operands[i], autodiff::summed_to(row.rule(call, i), operands[i].shape())));
    }
    return {};
  }

  Result<void> add_one(std::string_view op, const Tensor& operand, const Tensor& cotangent) {
    if (!cotangent.valid()) return Error(cotangent.error()).within(fmt::format("taking the gradient of '{}'", op));
    check(cotangent.dtype() == operand.dtype() && cotangent.shape() == operand.shape(),
          "a gradient has the type of what it is of");
    return add(operand, cotangent);
  }

  /// A rule of the user's.
  Result<void> run_own(const Tensor& y, const Tensor& g) {
    const api::OwnGradient& own = *y.node()->gradient;
    if (own.operands.empty()) return {};
    const std::vector<Tensor> made = own.rule({own.operands, y, g});
    if (made.size() != own.operands.size()) {
      return invalid("The gradient that was given for '{}' returns {} tensors for {} operands.", y.node()->op->name,
                     made.size(), own.operands.size());
    }
    for (std::size_t i = 0; i < made.size(); ++i) {
      const Tensor& operand = own.operands[i];
      if (!depends_on_wrt(operand)) continue;
      if (made[i].valid() && (made[i].dtype() != operand.dtype() || made[i].shape() != operand.shape())) {
        return invalid("The gradient that was given for '{}' returns {} for its operand {}, which is {}.",
                       y.node()->op->name, type_text(made[i]), i, type_text(operand));
      }
      VKF_CHECK_OK(add_one(y.node()->op->name, operand, made[i]));
    }
    return {};
  }

  std::unordered_map<const Tensor::Node*, Found> found_;
  const std::function<bool(const Tensor&)> is_forward_ = [this](const Tensor& tensor) {
    return found_.contains(tensor.node().get());
  };
  std::vector<Tensor> order_;  ///< operands before what reads them
};

Result<void> check_float(const Tensor& x, std::string_view what, std::size_t i) {
  if (!x.valid()) return Error(x.error());
  if (is_float(x.dtype())) return {};
  return invalid("'gradients' takes floats, but {} {} is {}.", what, i, type_text(x));
}

Result<std::vector<Tensor>> taken(std::span<const Tensor> outputs, std::span<const Tensor> wrt,
                                  std::span<const Tensor> cotangents) {
  for (std::size_t i = 0; i < outputs.size(); ++i) VKF_CHECK_OK(check_float(outputs[i], "output", i));
  for (std::size_t i = 0; i < wrt.size(); ++i) VKF_CHECK_OK(check_float(wrt[i], "'wrt'", i));
  if (!cotangents.empty() && cotangents.size() != outputs.size())
    return invalid("'gradients' takes a cotangent for each of {} outputs, but {} are given.", outputs.size(),
                   cotangents.size());
  for (std::size_t i = 0; i < cotangents.size(); ++i) {
    if (!cotangents[i].valid()) return Error(cotangents[i].error());
    if (cotangents[i].dtype() != outputs[i].dtype() || cotangents[i].shape() != outputs[i].shape())
      return invalid("The cotangent {} is {}, but the output that it is of is {}.", i, type_text(cotangents[i]),
                     type_text(outputs[i]));
  }
  Walk walk(wrt);
  for (const Tensor& output : outputs) walk.visit(output);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    VKF_CHECK_OK(walk.add(outputs[i], cotangents.empty()
                                          ? Tensor::scalar(outputs[i].dtype(), 1).broadcast_to(outputs[i].shape())
                                          : cotangents[i]));
  }
  VKF_CHECK_OK(walk.run());
  std::vector<Tensor> made;
  for (const Tensor& tensor : wrt) made.push_back(walk.of(tensor));
  return made;
}

}  // namespace

std::vector<Tensor> gradients(std::span<const Tensor> outputs, std::span<const Tensor> wrt,
                              std::span<const Tensor> cotangents) {
  auto made = taken(outputs, wrt, cotangents);
  if (made) return *std::move(made);
  return {wrt.size(), Tensor::failed(std::move(made).error())};
}

std::vector<Tensor> gradients(std::initializer_list<Tensor> outputs, std::initializer_list<Tensor> wrt,
                              std::initializer_list<Tensor> cotangents) {
  return gradients(std::span(outputs.begin(), outputs.size()), std::span(wrt.begin(), wrt.size()),
                   std::span(cotangents.begin(), cotangents.size()));
}

Tensor stop_gradient(const Tensor& x) {
  return api::with_own_gradient(api::build_tensor(ops::row("copy"), {x}, {}, ir::NoPayload{}), {});
}

Tensor with_gradient(const Tensor& value, std::vector<Tensor> operands, GradientRule rule) {
  for (const Tensor& operand : operands) {
    if (!operand.valid()) return operand;
  }
  if (operands.empty() || !rule)
    return Tensor::failed(invalid("'with_gradient' takes operands and a rule, but one of them is empty."));
  return api::with_own_gradient(api::build_tensor(ops::row("copy"), {value}, {}, ir::NoPayload{}),
                                {std::move(operands), std::move(rule)});
}

Tensor straight_through(const Tensor& value, const Tensor& x) {
  if (value.valid() && x.valid() && (value.dtype() != x.dtype() || value.shape() != x.shape())) {
    return Tensor::failed(invalid("'straight_through' takes two tensors of one type, but they are {} and {}.",
                                  type_text(value), type_text(x)));
  }
  return with_gradient(value, {x}, [](const GradientCall& call) { return std::vector{call.cotangent}; });
}

}  // namespace vkfuse
