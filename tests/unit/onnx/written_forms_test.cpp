// The same layers as different exporters write them: as one operator, or as many. Both compute the same, in as many
// kernels.
#include "api/tensor_node.hpp"
#include "golden/targets.hpp"
#include "passes/passes.hpp"
#include "plan/plan.hpp"
#include "reference/tolerance.hpp"
#include "support/compare_model.hpp"
#include "support/random.hpp"
#include "unit/onnx/net.hpp"

namespace vkfuse::onnx {
namespace {

struct Forms {
  const char* name;
  std::function<void(Net&, bool written)> write;  ///< as one operator, or written out
  std::int64_t opset = 18;
  double quantum = 0;  ///< what a rounding that straddles makes of a result
};

void PrintTo(const Forms& one, std::ostream* out) { *out << one.name; }

std::string cast(Net& net, const std::string& x, pb::TensorProto::DataType to) {
  return net.node("Cast", {x}, {{"to", static_cast<std::int64_t>(to)}});
}

/// [batch, length, width] as [batch, heads, length, size].
std::string heads_of(Net& net, const std::string& x) {
  return net.transpose(net.reshape(x, {net.batch, net.length, net.heads, net.size()}), {0, 2, 1, 3});
}

/// A causal layer: norms, attention, an MLP. Written: norms of Sub, Pow, Sqrt and Div; masks by Where with -inf; GELU
/// by Erf.
void write_decoder_layer(Net& net, bool written) {
  const auto norm = [&](const std::string& value) {
    return written ? net.written_layer_norm(value, net.width) : net.layer_norm(value, net.width);
  };
  std::string x = net.input("x", {net.batch, net.length, net.width});
  const std::string normal = norm(x);
  const std::string q = heads_of(net, net.linear(normal, net.width, net.width)),
                    k = heads_of(net, net.linear(normal, net.width, net.width));
  const std::string v = heads_of(net, net.linear(normal, net.width, net.width));
  std::string scores = net.node("Mul", {net.node("MatMul", {q, net.transpose(k, {0, 1, 3, 2})}),
                                        net.number(1 / std::sqrt(static_cast<double>(net.size())))});
  const std::int64_t length = net.length;
  const std::string low = net.number(-std::numeric_limits<double>::infinity());
  if (written) {
    const std::string seen = cast(
        net,
        net.numbers({1, 1, length, length}, [=](std::int64_t i) { return i % length <= i / length ? 1.0F : 0.0F; }),
        pb::TensorProto::BOOL);
    scores = net.node("Where", {seen, scores, low});
  } else {
    scores = net.node("Add", {scores, net.numbers({1, 1, length, length}, [=](std::int64_t i) {
                                return i % length > i / length ? -std::numeric_limits<float>::infinity() : 0.0F;
                              })});
  }
  const std::string seen = net.node("MatMul", {net.node("Softmax", {scores}, {{"axis", -1}}), v});
  const std::string joined = net.reshape(net.transpose(seen, {0, 2, 1, 3}), {net.batch, net.length, net.width});
  x = net.node("Add", {x, net.linear(joined, net.width, net.width)});
  const std::string hidden = net.linear(norm(x), net.width, 4 * net.width);
  net.output(net.node(
      "Add", {x, net.linear(written ? net.gelu(hidden) : net.node("Gelu", {hidden}), 4 * net.width, net.width)}));
}

/// RMS norms and a gated MLP. Written: as models of 16-bit floats are, with the norm between casts to f32, and SiLU as
/// x * sigmoid(x).
void write_gated_layer(Net& net, bool written) {
  const std::int64_t hidden = 3 * net.width;
  std::string x = net.input("x", {net.batch, net.length, net.width});
  const auto norm = [&](const std::string& value) {
    const std::string scale = net.weight({net.width}, 0.1, 1);
    if (!written) return net.node("RMSNormalization", {value, scale}, {{"axis", -1}, {"epsilon", 1e-6F}});
    const std::string wide = cast(net, value, pb::TensorProto::FLOAT);
    const std::string mean =
        net.node("ReduceMean", {net.node("Pow", {wide, net.number(2)}), net.ints({-1})}, {{"keepdims", 1}});
    const std::string root = net.node("Sqrt", {net.node("Add", {mean, net.number(1e-6)})});
    const std::string normal = net.node("Mul", {wide, net.node("Div", {net.number(1), root})});
    return net.node("Mul", {scale, cast(net, normal, pb::TensorProto::FLOAT)});
  };
  const auto silu = [&](const std::string& value) { return written ? net.silu(value) : net.node("Swish", {value}); };
  for (int layer = 0; layer < 2; ++layer) {
    const std::string normal = norm(x);
    const std::string gate = silu(net.linear(normal, net.width, hidden, false));
    x = net.node("Add", {x, net.linear(net.node("Mul", {gate, net.linear(normal, net.width, hidden, false)}), hidden,
                                       net.width, false)});
  }
  net.output(norm(x));
}

/// Down, up and across. Written: batch norms behind convolutions without a bias, SiLU by Sigmoid, upsampling by Resize
/// with sizes.
void write_small_unet(Net& net, bool written) {
  const auto block = [&](const std::string& x, std::int64_t from, std::int64_t to) {
    const std::string y = written
                              ? net.batch_norm(net.conv(x, {.from = from, .to = to, .kernel = 3, .bias = false}), to)
                              : net.conv(x, {.from = from, .to = to, .kernel = 3});
    return written ? net.silu(y) : net.node("Swish", {y});
  };
  const std::string x = net.input("x", {net.batch, 3, 16, 16});
  const std::string high = block(x, 3, 16);
  const std::string low =
      block(net.node("MaxPool", {high}, {{"kernel_shape", Sizes{2, 2}}, {"strides", Sizes{2, 2}}}), 16, 24);
  const std::vector<Attribute> how = {
      {"mode", "nearest"}, {"coordinate_transformation_mode", "asymmetric"}, {"nearest_mode", "floor"}};
  const std::string scales = net.numbers({4}, [](std::int64_t axis) { return axis < 2 ? 1.0F : 2.0F; });
  const std::string up = written ? net.node("Resize", {low, "", "", net.ints({net.batch, 24, 16, 16})}, how)
                                 : net.node("Resize", {low, "", scales}, how);
  const std::string joined = block(net.node("Concat", {up, high}, {{"axis", 1}}), 40, 16);
  net.output(net.conv(joined, {.from = 16, .to = 2}));
}

/// 8-bit convolutions. Written: QuantizeLinear and DequantizeLinear around operators of floats.
void write_quantised(Net& net, bool written) {
  const auto bytes = [&](const Sizes& sizes, std::int64_t spread) {
    return cast(
        net,
        net.numbers(sizes,
                    [=](std::int64_t i) { return static_cast<float>((i * 53 + i / 7) % (2 * spread + 1) - spread); }),
        pb::TensorProto::INT8);
  };
  const auto scale = [&](double value) { return net.number(value); };
  const std::string zero = cast(net, net.number(0), pb::TensorProto::INT8);
  std::string x = net.node("QuantizeLinear", {net.input("x", {net.batch, 8, 10, 10}), scale(0.02), zero});
  std::int64_t channels = 8;
  double s = 0.02;
  for (const std::int64_t to : {16, 12}) {
    const std::string weights = bytes({to, channels, 3, 3}, 40);
    const double next = 0.05;
    if (written) {
      const std::string wide = net.node("DequantizeLinear", {x, scale(s), zero}),
                        w = net.node("DequantizeLinear", {weights, scale(0.01), zero});
      const std::string y = net.node("Conv", {wide, w}, {{"pads", Sizes{1, 1, 1, 1}}, {"kernel_shape", Sizes{3, 3}}});
      x = net.node("QuantizeLinear", {y, scale(next), zero});
    } else {
      x = net.node("QLinearConv", {x, scale(s), zero, weights, scale(0.01), zero, scale(next), zero},
                   {{"pads", Sizes{1, 1, 1, 1}}, {"kernel_shape", Sizes{3, 3}}});
    }
    channels = to;
    s = next;
  }
  net.output(net.node("DequantizeLinear", {x, scale(s), zero}));
}

/// An LSTM over sequences of one length, or with the lengths stated, which are the same.
void write_lstm(Net& net, bool written) {
  const std::int64_t steps = 5, hidden = net.width / 2;
  std::vector<std::string> operands{net.input("x", {steps, net.batch, 12}), net.weight({1, 4 * hidden, 12}, 0.2),
                                    net.weight({1, 4 * hidden, hidden}, 0.2), net.weight({1, 8 * hidden}, 0.2)};
  if (written)
    operands.push_back(cast(net, net.ints(Sizes(static_cast<std::size_t>(net.batch), steps)), pb::TensorProto::INT32));
  const auto outputs = net.nodes("LSTM", operands, 2, {{"hidden_size", hidden}});
  net.output(net.gemm(net.node("Squeeze", {outputs[1], net.ints({0})}), hidden, 10));
}

ir::Graph graph_of(const Forms& one, bool written) {
  Net net(one.opset);
  one.write(net, written);
  const OnnxModel model = test::must(import(net.model()));
  return test::must(api::to_graph(model.outputs, model.output_names, one.name));
}

struct Planned {
  std::int64_t kernels = 0;
  std::string text;
};

Planned planned(const ir::Graph& graph) {
  const ir::Graph prepared = test::must(passes::run_pipeline(graph));
  const plan::Plan made = test::must(plan::make_plan(prepared, test::discrete_gpu()));
  const SymbolValues symbols = schedule::representative_symbols(prepared);
  const auto steps = test::must(plan::schedule_all(made, symbols));
  const auto runs = [](const plan::ScheduledKernel& step) { return !step.alias && step.schedule.launch.chunks > 0; };
  const plan::Plan unfused = test::must(plan::make_plan(prepared, test::discrete_gpu(), {false}));
  return {std::count_if(steps.begin(), steps.end(), runs), test::must(plan::to_text(made, unfused, symbols))};
}

class OnnxWrittenForms : public testing::TestWithParam<Forms> {};

TEST_P(OnnxWrittenForms, TakeAsManyKernelsAsOneOperator) {
  const Planned composed = planned(graph_of(GetParam(), false)), written = planned(graph_of(GetParam(), true));
  EXPECT_LE(written.kernels, composed.kernels) << written.text << "\n\n" << composed.text;
}

TEST_P(OnnxWrittenForms, ComputeWhatTheReferenceDoes) {
  for (const bool written : {false, true}) {
    const ir::Graph graph = graph_of(GetParam(), written);
    test::Data data;
    for (const ir::NodeId id : graph.inputs()) {
      const std::string& name = std::get<ir::InputPayload>(graph.node(id).payload).name;
      test::Random random(test::seed_of(1, name));
      while (data.inputs[name].size() < test::bytes_of(graph, id, {}))
        ir::encode(DType::f32, random.between(-1.7, 1.7), data.inputs[name]);
    }
    const Executable program = test::compile_graph(graph, {});
    if (GetParam().quantum == 0) {
      test::compare_model(program, graph, data,
                          fmt::format("{}, {}", GetParam().name, written ? "written" : "composed"));
      continue;
    }
    // Elements between two steps are undecided, one by one: what one kernel per op makes of them says nothing of the
    // others.
    const test::GuardedRun run = test::run_guarded(program, graph, data);
    EXPECT_EQ(run.broken, "");
    for (const auto& [name, column] : test::expected(graph, data)) {
      const reference::Tolerance tolerance = reference::tolerance_for(DType::f32, column.value);
      const auto& got = run.outputs.at(name);
      ASSERT_EQ(got.size(), column.value.size() * sizeof(float));
      std::size_t undecided = 0;
      for (std::size_t i = 0; i < column.value.size(); ++i) {
        const double value = ir::decode(DType::f32, got.data() + i * sizeof(float));
        const bool is_undecided = std::isinf(column.bound[i]);
        undecided += is_undecided ? 1 : 0;
        if (is_undecided && std::abs(value - column.value[i]) < 1.01 * GetParam().quantum) continue;
        ASSERT_TRUE(reference::agrees(value, column.value[i], tolerance, is_undecided ? 0 : column.bound[i]))
            << (written ? "written" : "composed") << ": element " << i << " is " << value << ", not "
            << column.value[i];
      }
      EXPECT_LE(undecided * 2, column.value.size()) << (written ? "written" : "composed");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Onnx, OnnxWrittenForms,
                         testing::Values(Forms{"decoder_layer", write_decoder_layer, 20},
                                         Forms{"gated_layer", write_gated_layer, 24},
                                         Forms{"small_unet", write_small_unet, 24},
                                         Forms{"quantised", write_quantised, 18, 0.05}, Forms{"lstm", write_lstm, 18}),
                         [](const auto& parameter) { return std::string(parameter.param.name); });

}  // namespace
}  // namespace vkfuse::onnx
