// Which values are computed otherwise than by their op alone.
#include "lowering/value_forms.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "base/shaders.hpp"
#include "support/device.hpp"

namespace vkfuse::lowering {
namespace {

using test::must;
using Kind = ValueForm::Kind;

/// All nodes of a graph as one kernel.
struct Kernel {
  ir::Graph graph;
  segment::Loops loops;
  IntegerRanges ranges{graph, loops};

  explicit Kernel(const std::string& body) : graph(must(ir::parse("graph \"g\" {\n" + body + "}"))) {
    std::vector<bool> escapes(graph.size(), false);
    for (const ir::Output& output : graph.outputs()) escapes[output.value] = true;
    std::vector<ir::NodeId> members;
    for (ir::NodeId id = 0; id < graph.size(); ++id) {
      if (!segment::is_resident(graph, id) && !segment::is_literal(graph, id)) members.push_back(id);
    }
    loops = must(segment::build_loops(graph, segment::build_segment(graph, members, escapes), {}));
  }
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  [[nodiscard]] FormInput input(bool strict = false) const { return {graph, loops, ranges, strict, true}; }
  /// The value that an op computes from what others have.
  [[nodiscard]] segment::ValueId value(ir::NodeId node) const {
    for (segment::ValueId id = 0; id < loops.values.size(); ++id) {
      if (loops.values[id].node == node && loops.values[id].kind == segment::Value::Kind::compute) return id;
    }
    ADD_FAILURE() << "no value of node " << node;
    return 0;
  }
  [[nodiscard]] ValueForm form(ir::NodeId node, bool strict = false) const {
    return value_forms(input(strict))[value(node)];
  }
};

Kernel of_exponent(const std::string& exponent, const std::string& type = "f32") {
  return Kernel("%0 = input \"x\" : " + type + "[64]\n%1 = constant {" + exponent + "} : " + type +
                "[]\n%2 = pow %0 %1 : " + type + "[64]\noutput \"y\" = %2\n");
}

TEST(ValueForms, SmallPowersAreProducts) {
  EXPECT_EQ(of_exponent("2").form(2).kind, Kind::power);
  EXPECT_EQ(of_exponent("2").form(2).power, 2);
  EXPECT_EQ(of_exponent("3", "f16").form(2).power, 3);
  EXPECT_EQ(of_exponent("4").form(2).kind, Kind::op);
  EXPECT_EQ(of_exponent("2.5").form(2).kind, Kind::op);
  EXPECT_EQ(of_exponent("2", "i32").form(2).kind, Kind::op) << "of integers, the op is exact";
}

/// x * (1 + erf(x / divisor)), as a GELU has it, or another number in place of the 1.
Kernel of_gelu(const std::string& type, const std::string& divisor = "1.4142135", const std::string& one = "1") {
  const auto typed = [&](const std::string& text) { return text + " : " + type + "[64]\n"; };
  const std::string literals =
      "%1 = constant {" + divisor + "} : " + type + "[]\n%2 = constant {" + one + "} : " + type + "[]\n";
  return Kernel(typed("%0 = input \"x\"") + literals + typed("%3 = div %0 %1") + typed("%4 = erf %3") +
                typed("%5 = add %4 %2") + typed("%6 = mul %0 %5") + "output \"y\" = %6\n");
}

TEST(ValueForms, OnePlusErfOf16BitsIsOneStep) {
  for (const char* type : {"f16", "bf16"}) {
    const Kernel gelu = of_gelu(type);
    EXPECT_EQ(gelu.form(5).kind, Kind::one_plus_erf) << type;
    EXPECT_EQ(gelu.form(5).operand, 0U);
    EXPECT_EQ(gelu.form(4).kind, Kind::same);
    EXPECT_EQ(gelu.form(3).kind, Kind::product);
    EXPECT_NEAR(gelu.form(3).factor, 0.70710678, 1e-3);
    EXPECT_EQ(gelu.form(5, true).kind, Kind::op) << "strict numerics round erf";
  }
}

/// The numbers of a function of the prelude, in their order: no driver of these tests has what takes this one.
std::vector<float> numbers_of(std::string_view function) {
  std::vector<float> numbers;
  for (const EmbeddedShader& shader : embedded_shaders()) {
    const std::size_t begin = shader.text.find(function);
    if (begin == std::string_view::npos) continue;
    const std::string body(shader.text.substr(begin, shader.text.find("\n}", begin) - begin));
    for (std::size_t at = body.find('{'); at < body.size();) {
      const bool starts = std::isdigit(body[at]) != 0 && std::isalnum(body[at - 1]) == 0;
      if (!starts) {
        ++at;
        continue;
      }
      const bool negative = body[at - 1] == '-';
      char* end = nullptr;
      const float number = std::strtof(body.c_str() + at, &end);
      numbers.push_back(negative ? -number : number);
      at = static_cast<std::size_t>(end - body.c_str());
    }
  }
  return numbers;
}

/// The ways in which exporters write a GELU: 0.5 before, between and after the other factors.
TEST(ValueForms, HalfOfOnePlusErfIsOneStep) {
  const auto gelu = [](const std::vector<std::string>& products) {
    std::string text = "%0 = input \"x\" : f16[64]\n%1 = constant {1} : f16[]\n%2 = constant {0.5} : f16[]\n";
    for (const std::string line : {"%3 = erf %0", "%4 = add %3 %1"}) text += line + " : f16[64]\n";
    for (const std::string& line : products) text += line + " : f16[64]\n";
    return Kernel(text + "output \"y\" = %6\n");
  };
  struct Spelling {
    std::vector<std::string> products;
    ir::NodeId halving;
    std::size_t other;
  };
  for (const Spelling& one :
       {Spelling{{"%5 = mul %4 %2", "%6 = mul %0 %5"}, 5, 0}, Spelling{{"%5 = mul %2 %4", "%6 = mul %5 %0"}, 5, 1},
        Spelling{{"%5 = mul %0 %4", "%6 = mul %5 %2"}, 6, 0}, Spelling{{"%5 = mul %0 %2", "%6 = mul %5 %4"}, 5, 0}}) {
    const Kernel kernel = gelu(one.products);
    EXPECT_EQ(kernel.form(4).kind, Kind::half_one_plus_erf) << one.products[0];
    EXPECT_EQ(kernel.form(one.halving).kind, Kind::same) << one.products[0];
    EXPECT_EQ(kernel.form(one.halving).operand, one.other) << one.products[0];
  }
  EXPECT_EQ(gelu({"%5 = mul %4 %2", "%6 = add %4 %5"}).form(4).kind, Kind::one_plus_erf) << "read by others, too";
  EXPECT_EQ(gelu({"%5 = mul %4 %2", "%6 = mul %5 %5"}).form(4).kind, Kind::one_plus_erf) << "read twice";
  const Kernel summed(
      "%0 = input \"x\" : f16[8, 64]\n%1 = constant {1} : f16[]\n%2 = constant {0.5} : f16[]\n%3 = erf %0 : f16[8, "
      "64]\n"
      "%4 = add %3 %1 : f16[8, 64]\n%5 = mul %0 %4 : f16[8, 64]\n%6 = mul %5 %2 : f16[8, 64]\n"
      "%7 = reduce_sum axes=[1] %6 : f16[8]\noutput \"y\" = %7\n");
  EXPECT_EQ(summed.form(4).kind, Kind::one_plus_erf) << "a sum adds the product in one step";
  EXPECT_EQ(gelu({"%5 = add %4 %0", "%6 = mul %5 %2"}).form(4).kind, Kind::one_plus_erf) << "half of a sum";
}

TEST(ValueForms, TheStepForHalfOfOnePlusErfIsWithinItsBound) {
  const std::vector<float> n = numbers_of("float f16_half_one_plus_erf(float x) {");
  ASSERT_EQ(n.size(), 8U) << "the farthest square, five coefficients, and 1 twice";
  const auto step = [&](float x) {
    const float z = std::fmin(x * x, n[0]);
    float p = std::fma(n[1], z, n[2]);
    for (std::size_t i = 3; i < 6; ++i) p = std::fma(p, z, n[i]);
    return n[6] / (n[7] + std::exp2(-x * p));
  };
  for (float x = -8; x <= 8; x += 0x1p-10F)
    ASSERT_NEAR(step(x), (1 + std::erf(static_cast<double>(x))) / 2, 0x1p-19) << "of " << x;
  EXPECT_EQ(step(INFINITY), 1);
  EXPECT_EQ(step(-INFINITY), 0);
  EXPECT_TRUE(std::isnan(step(NAN)));
}

TEST(ValueForms, ErfStaysAsItIsWhereMoreIsAskedOfIt) {
  EXPECT_EQ(of_gelu("f32").form(5).kind, Kind::op) << "f32 has more digits";
  EXPECT_EQ(of_gelu("f16", "1.4142135", "2").form(5).kind, Kind::op) << "not 1";
  const Kernel read_twice(
      "%0 = input \"x\" : f16[64]\n%1 = constant {1} : f16[]\n%2 = erf %0 : f16[64]\n"
      "%3 = add %2 %1 : f16[64]\n%4 = mul %3 %2 : f16[64]\noutput \"y\" = %4\n");
  EXPECT_EQ(read_twice.form(3).kind, Kind::op) << "erf is needed by itself";
}

TEST(ValueForms, DivisionsByPowersOfTwoAreProducts) {
  const auto form_of = [](const std::string& divisor) {
    return Kernel("%0 = input \"x\" : f32[64]\n%1 = constant {" + divisor +
                  "} : f32[]\n%2 = div %0 %1 : f32[64]\noutput \"y\" = %2\n")
        .form(2);
  };
  EXPECT_EQ(form_of("8").kind, Kind::product);
  EXPECT_EQ(form_of("8").factor, 0.125F);
  EXPECT_EQ(form_of("-0.5").factor, -2.0F);
  EXPECT_EQ(form_of("41").kind, Kind::op) << "41 * (1 / 41) is less than 1";
  EXPECT_EQ(form_of("1.70141183e38").kind, Kind::op) << "the reciprocal of 2^127 is not normal";
}

TEST(ValueForms, CastsThatChangeNoNumberAreNotRounded) {
  const Kernel bytes(R"(%0 = input "x" : u8[64]
%1 = cast %0 : f16[64]
%2 = add %1 %1 : f16[64]
output "y" = %2
)");
  EXPECT_EQ(bytes.form(1).kind, Kind::exact_float);
  const Kernel wide(R"(%0 = input "x" : u16[64]
%1 = cast %0 : f16[64]
%2 = add %1 %1 : f16[64]
output "y" = %2
)");
  EXPECT_EQ(wide.form(1).kind, Kind::op) << "f16 holds integers up to 2048";
  const Kernel masked(R"(%0 = input "x" : i32[64]
%1 = constant {15} : i32[]
%2 = bit_and %0 %1 : i32[64]
%3 = cast %2 : u8[64]
%4 = add %3 %3 : u8[64]
output "y" = %4
)");
  EXPECT_EQ(masked.form(3).kind, Kind::in_register);
  EXPECT_EQ(masked.form(3).dtype, DType::u32);
  EXPECT_FALSE(masked.form(4).rounds) << "30 is a byte";
}

TEST(ValueForms, AStoreRoundsACast) {
  const char* body = R"(%0 = input "x" : f32[64]
%1 = cast %0 : f16[64]
output "y" = %1
)";
  EXPECT_EQ(Kernel(body).form(1).kind, Kind::copy);
  const Kernel read(R"(%0 = input "x" : f32[64]
%1 = cast %0 : f16[64]
%2 = add %1 %1 : f16[64]
output "y" = %2
)");
  EXPECT_EQ(read.form(1).kind, Kind::op) << "the sum is of rounded numbers";
}

TEST(ValueForms, ResultsThatMayWrapAreWrapped) {
  const Kernel bytes(R"(%0 = input "x" : u8[64]
%1 = add %0 %0 : u8[64]
output "y" = %1
)");
  EXPECT_TRUE(bytes.form(1).rounds);
  const Kernel halves(R"(%0 = input "x" : f16[64]
%1 = add %0 %0 : f16[64]
%2 = mul %1 %0 : f16[64]
output "y" = %2
)");
  EXPECT_FALSE(halves.form(1).rounds);
  EXPECT_TRUE(halves.form(1, true).rounds) << "every op rounds in strict numerics";
  EXPECT_FALSE(halves.form(2, true).rounds) << "the store does";
}

TEST(ValueForms, AProductThatOneSumReadsIsPartOfIt) {
  const auto contracted = [](const std::string& type, bool strict) {
    const Kernel kernel("%0 = input \"x\" : " + type + "[64]\n%1 = mul %0 %0 : " + type +
                        "[64]\n%2 = add %1 %0 : " + type + "[64]\noutput \"y\" = %2\n");
    const auto found = contract_products(kernel.input(strict), value_forms(kernel.input(strict)));
    return found.size() == 1 && found.begin()->first == kernel.value(1) && found.begin()->second == kernel.value(2);
  };
  EXPECT_TRUE(contracted("f16", false));
  EXPECT_TRUE(contracted("bf16", false));
  EXPECT_FALSE(contracted("f32", false)) << "its product may be an infinity";
  EXPECT_FALSE(contracted("f16", true));
}

}  // namespace
}  // namespace vkfuse::lowering
