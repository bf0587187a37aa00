// Functions of tensors: the elementwise ops of the op table, and compositions, a row each.

#include "api/composite_table.hpp"
#include "bind.hpp"
#include "device.hpp"
#include "ops/op.hpp"

namespace vkfuse::python {

using namespace nb::literals;

namespace {

/// Names that are NumPy's, or keywords of Python.
std::string name_of_op(std::string_view op) {
  constexpr std::pair<std::string_view, std::string_view> others[] = {
      {"and", "logical_and"}, {"or", "logical_or"}, {"not", "logical_not"}, {"xor", "logical_xor"}, {"min", "minimum"},
      {"max", "maximum"},     {"select", "where"},  {"eq", "equal"},        {"ne", "not_equal"},    {"lt", "less"},
      {"le", "less_equal"},   {"gt", "greater"},    {"ge", "greater_equal"}};
  for (const auto& [from, to] : others) {
    if (op == from) return std::string(to);
  }
  return std::string(op);
}

template <typename... Objects>
nb::object elementwise(const ops::OpRow& row, Objects... objects) {
  const nb::handle handles[] = {objects...};
  const std::vector<Tensor> operands = to_tensors(handles);
  return made_of(operands, [&] { return Tensor::apply(row.name, operands); });
}

/// Every elementwise op of the table, by its name.
void bind_elementwise(nb::module_& module) {
  for (const ops::OpRow& row : ops::table()) {
    if (row.cls != ops::OpClass::elementwise) continue;
    // Kept for good, as the row is.
    const auto* name = new std::string(name_of_op(row.name));
    const auto* doc = new std::string(row.doc);
    if (row.arity == 1) {
      module.def(
          name->c_str(), [&row](nb::handle x) { return elementwise(row, x); }, "x"_a, doc->c_str());
    } else if (row.arity == 2) {
      module.def(
          name->c_str(), [&row](nb::handle a, nb::handle b) { return elementwise(row, a, b); }, "a"_a, "b"_a,
          doc->c_str());
    } else if (row.arity == 3) {
      module.def(
          name->c_str(), [&row](nb::handle a, nb::handle b, nb::handle c) { return elementwise(row, a, b, c); }, "a"_a,
          "b"_a, "c"_a, doc->c_str());
    }
  }
  module.def(
      "apply",
      [](const std::string& op, nb::args objects) {
        std::vector<nb::handle> handles;
        for (const nb::handle one : objects) handles.push_back(one);
        const std::vector<Tensor> operands = to_tensors(handles);
        return made_of(operands, [&] { return Tensor::apply(op, operands); });
      },
      "op"_a, "operands"_a, "Any elementwise op by its name in docs/ops.md.");
}

/// A function of one tensor, as an object of Python has it.
template <typename... Arguments, typename Call>
auto function(Call call) {
  return [call](nb::handle x, Arguments... arguments) {
    const Tensor operand = to_tensor(x, nullptr);
    return made_of({operand}, [&] { return call(operand, arguments...); });
  };
}
/// Of two, where numbers take the dtype of the other.
template <typename... Arguments, typename Call>
auto function2(Call call) {
  return [call](nb::handle a, nb::handle b, Arguments... arguments) {
    const nb::handle handles[] = {a, b};
    const std::vector<Tensor> operands = to_tensors(handles);
    return made_of(operands, [&] { return call(operands[0], operands[1], arguments...); });
  };
}

std::optional<Tensor> optional_tensor(nb::handle object, const Tensor* like) {
  return object.is_none() ? std::nullopt : std::optional(to_tensor(object, like));
}
std::optional<std::int64_t> optional_integer(nb::handle object, const char* what) {
  return object.is_none() ? std::nullopt : std::optional(to_integer(object, what));
}

void bind_compositions(nb::module_& module) {
  const auto axis = nb::arg("axis") = -1;
  module.def("softmax", function<int>([](const Tensor& x, int over) { return softmax(x, over); }), "x"_a, axis,
             "exp(x) / sum(exp(x)) along an axis.");
  module.def("log_softmax", function<int>([](const Tensor& x, int over) { return log_softmax(x, over); }), "x"_a, axis,
             "The logarithm of softmax().");
  module.def("normalize", function<nb::handle, double>([](const Tensor& x, nb::handle axes, double epsilon) {
               return normalize(x, to_axes(axes), epsilon);
             }),
             "x"_a, "axes"_a = -1, "epsilon"_a = 1e-5,
             "(x - mean) / sqrt(variance + epsilon) over axes: a layer norm without scale and bias.");
  module.def("rms_normalize", function<nb::handle, double>([](const Tensor& x, nb::handle axes, double epsilon) {
               return rms_normalize(x, to_axes(axes), epsilon);
             }),
             "x"_a, "axes"_a = -1, "epsilon"_a = 1e-5, "x / sqrt(mean(x^2) + epsilon) over axes.");
  module.def("cross_entropy",
             function2<>([](const Tensor& logits, const Tensor& labels) { return cross_entropy(logits, labels); }),
             "logits"_a, "labels"_a,
             "-log_softmax(logits)[r, labels[r]] for logits [rows, classes] and integer labels [rows].");
  module.def("silu", function<>([](const Tensor& x) { return silu(x); }), "x"_a, "x * sigmoid(x).");
  module.def("dropout", function<double, std::uint64_t>([](const Tensor& x, double keep, std::uint64_t seed) {
               return dropout(x, keep, seed);
             }),
             "x"_a, "keep"_a, "seed"_a,
             "x / keep where the random bit of the element is set with probability `keep`, else 0.");
  module.def(
      "top_k",
      [](nb::handle x, nb::handle count, int over, bool largest) {
        const Tensor operand = to_tensor(x, nullptr);
        std::optional<TopK> both;
        const nb::object values = made_of({operand}, [&] {
          both = top_k(operand, to_integer(count, "count"), over, largest);
          return both->values;
        });
        const nb::object positions = made_of({operand}, [&] { return std::exchange(both, {})->positions; });
        return nb::make_tuple(values, positions);
      },
      "x"_a, "count"_a, axis, "largest"_a = true,
      "The largest (or smallest) `count` elements along an axis, best first, and their positions as int32.");
  module.def(
      "concat",
      [](nb::handle tensors, int over) {
        if (!nb::isinstance<nb::sequence>(tensors)) wrong_type("concat() takes a sequence of tensors.");
        std::vector<Tensor> operands;
        for (const nb::handle one : tensors) operands.push_back(to_tensor(one, nullptr));
        return made_of(operands, [&] { return concat(operands, over); });
      },
      "tensors"_a, "axis"_a = 0, "Tensors joined along one axis; the other dimensions are equal.");
}

/// Of the kind that the composite has it in; what it does not have goes on as it is, and is refused by name.
CompositeAttribute to_attribute(const api::Composite& composite, const std::string& name, nb::handle object) {
  const auto row = std::ranges::find(composite.attributes, name, &api::NamedAttribute::name);
  const bool is_real = row != composite.attributes.end() && std::holds_alternative<double>(row->otherwise);
  if (nb::isinstance<nb::str>(object)) return to_text(object, name.c_str());
  if (nb::isinstance<nb::float_>(object) || (is_real && nb::isinstance<nb::int_>(object)))
    return nb::cast<double>(object);
  if (nb::isinstance<nb::sequence>(object)) return to_integers(object, name.c_str());
  return to_integer(object, name.c_str());
}

nb::object composite_of(const api::Composite& composite, nb::args objects, nb::kwargs given) {
  std::vector<nb::handle> handles;
  for (const nb::handle one : objects) handles.push_back(one);
  while (!handles.empty() && handles.back().is_none()) handles.pop_back();  // operands that may be left out
  const std::vector<Tensor> operands = to_tensors(handles);
  CompositeAttributes attributes;
  for (const auto& [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    attributes.insert_or_assign(name, to_attribute(composite, name, value));
  }
  return made_of(operands, [&] { return apply_composite(composite.name, operands, attributes); });
}

std::string text_of(const CompositeAttribute& attribute) {
  if (const auto* text = std::get_if<std::string>(&attribute)) return fmt::format("'{}'", *text);
  if (const auto* all = std::get_if<std::vector<std::int64_t>>(&attribute))
    return fmt::format("({})", fmt::join(*all, ", "));
  const auto* real = std::get_if<double>(&attribute);
  return real != nullptr ? fmt::format("{}", *real) : fmt::format("{}", std::get<std::int64_t>(attribute));
}

/// Every composite of the table that has no function above.
void bind_composites(nb::module_& module) {
  for (const api::Composite& composite : api::composites()) {
    // Kept for good, as the row is.
    const auto* name = new std::string(composite.name);
    if (nb::hasattr(module, name->c_str())) continue;
    auto* doc = new std::string(fmt::format("{}.\n\nOperands: {}.", composite.documentation, composite.operands));
    for (std::size_t i = 0; i < composite.attributes.size(); ++i)
      *doc += fmt::format("{}{}={}", i == 0 ? " Options: " : ", ", composite.attributes[i].name,
                          text_of(composite.attributes[i].otherwise));
    module.def(
        name->c_str(),
        [&composite](nb::args operands, nb::kwargs options) { return composite_of(composite, operands, options); },
        "operands"_a, "options"_a, doc->c_str());
  }
}

ConvOptions conv_options(nb::handle strides, nb::handle low, nb::handle high, nb::handle dilations, nb::handle groups) {
  return {.strides = to_integers(strides, "stride"),
          .low = to_integers(low, "padding"),
          .high = to_integers(high, "padding"),
          .dilations = to_integers(dilations, "dilation"),
          .groups = to_integer(groups, "number of groups")};
}

AttentionOptions attention_options(const nb::kwargs& given, const Tensor& q) {
  AttentionOptions made;
  take_options(given, "attention",
               {
                   {"scale", [&](nb::handle value) { made.scale = to_number(value, "scale"); }},
                   {"softcap", [&](nb::handle value) { made.softcap = to_number(value, "softcap"); }},
                   {"bias", [&](nb::handle value) { made.bias = to_tensor(value, &q); }},
                   {"mask", [&](nb::handle value) { made.mask = to_tensor(value, nullptr); }},
                   {"alibi_slopes", [&](nb::handle value) { made.alibi_slopes = to_tensor(value, &q); }},
                   {"causal", [&](nb::handle value) { made.causal = to_truth(value); }},
                   {"window_before", [&](nb::handle value) { made.window_before = optional_integer(value, "window"); }},
                   {"window_after", [&](nb::handle value) { made.window_after = optional_integer(value, "window"); }},
                   {"first_query",
                    [&](nb::handle value) { made.first_query = to_integer(value, "position of the first query"); }},
                   {"sink", [&](nb::handle value) { made.sink = to_tensor(value, &q); }},
                   {"softmax_dtype", [&](nb::handle value) { made.softmax_dtype = to_dtype(value); }},
               });
  return made;
}

std::vector<Tensor> operands_of(std::vector<Tensor> operands, const AttentionOptions& options) {
  for (const auto* one : {&options.bias, &options.mask, &options.alibi_slopes, &options.sink}) {
    if (*one) operands.push_back(**one);
  }
  return operands;
}

constexpr const char* kAttentionDoc =
    "softmax(q k^T * scale + ...) v for q [batch, heads, queries, size], k [batch, key heads, keys, size] and\n"
    "v [batch, key heads, keys, value size].\n\n"
    "Options: scale, softcap, bias, mask (keys that are false are left out), alibi_slopes, causal, window_before,\n"
    "window_after, first_query, sink, softmax_dtype.";

void bind_contractions(nb::module_& module) {
  module.def("matmul", function2<>([](const Tensor& a, const Tensor& b) { return matmul(a, b); }), "a"_a, "b"_a,
             "The matrix product by NumPy's rules. 16-bit floats are added up in float32, integers wrap.");
  module.def("dot_general",
             function2<nb::handle, nb::handle, nb::handle, nb::handle>([](const Tensor& a, const Tensor& b,
                                                                          nb::handle contract_a, nb::handle contract_b,
                                                                          nb::handle batch_a, nb::handle batch_b) {
               return dot_general(a, b,
                                  {.contract_a = to_axes(contract_a),
                                   .contract_b = to_axes(contract_b),
                                   .batch_a = to_axes(batch_a),
                                   .batch_b = to_axes(batch_b)});
             }),
             "a"_a, "b"_a, "contract_a"_a, "contract_b"_a, "batch_a"_a = nb::none(), "batch_b"_a = nb::none(),
             "The sum of a * b over the contracted axes: batch axes first, then what is left of a, then of b.");
  const auto convolution = [&](const char* name, auto call, const char* doc) {
    module.def(
        name,
        [call](nb::handle x, nb::handle w, nb::handle strides, nb::handle low, nb::handle high, nb::handle dilations,
               nb::handle groups) {
          const nb::handle handles[] = {x, w};
          const std::vector<Tensor> operands = to_tensors(handles);
          const ConvOptions options = conv_options(strides, low, high, dilations, groups);
          return made_of(operands, [&] { return call(operands[0], operands[1], options); });
        },
        "x"_a, "w"_a, "strides"_a = nb::none(), "low"_a = nb::none(), "high"_a = nb::none(), "dilations"_a = nb::none(),
        "groups"_a = 1, doc);
  };
  convolution(
      "conv", [](const Tensor& x, const Tensor& w, const ConvOptions& options) { return conv(x, w, options); },
      "Cross-correlation of x [batch, channels, spatial...] with w [channels out, channels / groups, kernel...];\n"
      "`low` and `high` zeros are put before and after each spatial axis.");
  convolution(
      "conv_transpose",
      [](const Tensor& x, const Tensor& w, const ConvOptions& options) { return conv_transpose(x, w, options); },
      "The transpose of conv() as a map: w is [channels, channels out / groups, kernel...]; `low` and `high` cut.");
  module.def(
      "attention",
      [](nb::handle q, nb::handle k, nb::handle v, nb::kwargs given) {
        const nb::handle handles[] = {q, k, v};
        const std::vector<Tensor> operands = to_tensors(handles);
        const AttentionOptions options = attention_options(given, operands[0]);
        return made_of(operands_of(operands, options),
                       [&] { return attention(operands[0], operands[1], operands[2], options); });
      },
      "q"_a, "k"_a, "v"_a, "options"_a, kAttentionDoc);
  module.def(
      "attention_scores",
      [](nb::handle q, nb::handle k, nb::kwargs given) {
        const nb::handle handles[] = {q, k};
        const std::vector<Tensor> operands = to_tensors(handles);
        const AttentionOptions options = attention_options(given, operands[0]);
        return made_of(operands_of(operands, options),
                       [&] { return attention_scores(operands[0], operands[1], options); });
      },
      "q"_a, "k"_a, "options"_a, "The scores of attention() before softmax, [batch, heads, queries, keys].");
  module.def("attention_output",
             function2<>([](const Tensor& weights, const Tensor& v) { return attention_output(weights, v); }),
             "weights"_a, "v"_a, "What attention() makes of its weights.");
  module.def(
      "dequantize",
      [](nb::handle integers, nb::handle scale, nb::handle zero_point, int axis, nb::handle group) {
        const Tensor x = to_tensor(integers, nullptr);
        Quantization how{.scale = to_tensor(scale, nullptr),
                         .zero_point = optional_tensor(zero_point, &x),
                         .axis = axis,
                         .group = to_integer(group, "size of a group")};
        std::vector<Tensor> operands = {x, how.scale};
        if (how.zero_point) operands.push_back(*how.zero_point);
        return made_of(operands, [&] { return dequantize(x, how); });
      },
      "integers"_a, "scale"_a, "zero_point"_a = nb::none(), "axis"_a = 0, "group"_a = 0,
      "(integers - zero_point) * scale, in the dtype of the scale: in front of a matmul it is part of the load.");
  module.def("unpack_int4", function<bool>([](const Tensor& x, bool is_signed) { return unpack_int4(x, is_signed); }),
             "bytes"_a, "is_signed"_a = false,
             "uint8 [..., n] that hold two 4-bit integers each, low bits first, as [..., 2n].");
  module.def(
      "decode_float",
      [](nb::handle codes, const std::string& format, nb::handle dtype) {
        const Tensor x = to_tensor(codes, nullptr);
        const std::string to(name_of(to_dtype(dtype)));
        return made_of({x}, [&] { return apply_composite("decode_float", {x}, {{"format", format}, {"dtype", to}}); });
      },
      "codes"_a, "format"_a = "float8_e4m3fn", "dtype"_a = "float32",
      "The numbers of codes of 8, 6 or 4 bits, one in the low bits of each uint8, which ml_dtypes has under the name "
      "of\n"
      "the format: float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz, float6_e2m3fn, float6_e3m2fn,\n"
      "float4_e2m1fn, float8_e8m0fnu. In front of a matmul it is part of the load.");
}

void bind_custom(nb::module_& module) {
  module.def(
      "custom",
      [](const std::string& name, const std::string& glsl, nb::args objects, nb::kwargs given) {
        CustomOp op{.name = name, .glsl = glsl};
        std::vector<nb::handle> handles;
        for (const nb::handle one : objects) handles.push_back(one);
        const std::vector<Tensor> operands = to_tensors(handles);
        if (!operands.empty()) op.dtype = operands[0].dtype();
        take_options(given, "custom",
                     {
                         {"dtype", [&](nb::handle value) { op.dtype = to_dtype(value); }},
                         {"ulps", [&](nb::handle value) { op.ulps = to_axes(value).at(0); }},
                         {"cost", [&](nb::handle value) { op.cost = to_axes(value).at(0); }},
                         {"reference",
                          [&](nb::handle value) {
                            const Callback callback = to_callback(value, "reference");
                            op.reference = [callback](std::span<const double> x) {
                              double result = 0;
                              callback.call(
                                  [&] {
                                    nb::list all;
                                    for (const double one : x) all.append(one);
                                    return nb::tuple(all);
                                  },
                                  [&](const nb::object& made) { result = nb::cast<double>(made); });
                              return result;
                            };
                          }},
                     });
        return made_of(operands, [&] { return custom(op, operands); });
      },
      "name"_a, "glsl"_a, "operands"_a, "options"_a,
      "An elementwise op of your own: GLSL over x0, x1, ..., an expression or a body with `return`. It fuses.\n\n"
      "Options: dtype (of the result; default that of the first operand), ulps=16, cost=8,\n"
      "reference=f(x0, x1, ...).");
  module.def(
      "custom_kernel",
      [](const std::string& name, const std::string& glsl, nb::handle shape, nb::args objects, nb::kwargs given) {
        CustomKernel kernel{.name = name, .glsl = glsl, .shape = to_shape(shape)};
        std::vector<nb::handle> handles;
        for (const nb::handle one : objects) handles.push_back(one);
        const std::vector<Tensor> operands = to_tensors(handles);
        if (!operands.empty()) kernel.dtype = operands[0].dtype();
        take_options(given, "custom_kernel",
                     {
                         {"dtype", [&](nb::handle value) { kernel.dtype = to_dtype(value); }},
                         {"workgroup", [&](nb::handle value) { kernel.workgroup = to_axes(value).at(0); }},
                         {"tile", [&](nb::handle value) { kernel.tile = to_integers(value, "tile"); }},
                     });
        return made_of(operands, [&] { return custom(kernel, operands); });
      },
      "name"_a, "glsl"_a, "shape"_a, "operands"_a, "options"_a,
      "A whole compute shader as one kernel; include/vkfuse/custom.hpp says what it is given.\n\n"
      "Options: dtype (of the result), workgroup=64, tile=(elements of one workgroup along each axis).");
}

/// Elements of a list or tuple, each a tensor.
std::vector<Tensor> tensors_of(nb::handle object, const char* what) {
  if (!nb::isinstance<nb::sequence>(object))
    wrong_type(fmt::format("The {} of gradients() are a sequence of tensors.", what));
  std::vector<Tensor> all;
  for (const nb::handle one : object) all.push_back(to_tensor(one, nullptr));
  return all;
}

nb::object gradients_of(const std::vector<Tensor>& outputs, const std::vector<Tensor>& wrt,
                        const std::vector<Tensor>& cotangents) {
  const auto make = [&] {
    nb::list all;
    for (const Tensor& one : gradients(outputs, wrt, cotangents)) all.append(value_object(one));
    return nb::object(all);
  };
  for (const auto* operands : {&outputs, &wrt, &cotangents}) {
    if (std::none_of(operands->begin(), operands->end(), is_of_stream)) continue;
    const StreamTurn turn;
    return make();
  }
  return make();
}

void bind_gradients(nb::module_& module) {
  module.def(
      "_gradients",
      [](nb::handle outputs, nb::handle wrt, nb::handle cotangents) {
        return gradients_of(tensors_of(outputs, "outputs"), tensors_of(wrt, "values"),
                            tensors_of(cotangents, "cotangents"));
      },
      "outputs"_a, "wrt"_a, "cotangents"_a, "What gradients() of the package is made of.");
  module.def("stop_gradient", function<>([](const Tensor& x) { return stop_gradient(x); }), "x"_a,
             "x, but a constant to gradients(). No kernel copies it.");
  module.def("straight_through",
             function2<>([](const Tensor& value, const Tensor& x) { return straight_through(value, x); }), "value"_a,
             "x"_a, "`value` with the gradient of x: straight through whatever made `value` of x, as rounding.");
}

}  // namespace

void bind_functions(nb::module_& module) {
  bind_gradients(module);
  bind_elementwise(module);
  bind_compositions(module);
  bind_contractions(module);
  bind_custom(module);
  bind_composites(module);
}

}  // namespace vkfuse::python
