// Which scores of attention are a softcap, and what is then computed in one step.
#include <gtest/gtest.h>

#include <numbers>
#include <string>

#include "golden/targets.hpp"
#include "plan/plan.hpp"
#include "support/device.hpp"
#include "support/text_ir.hpp"
#include "templates/attention/lower_softcap.hpp"

namespace vkfuse::test {
namespace {

using lowering::Softcap;
using lowering::ValueForm;

/// Attention as one kernel. `capped` makes scores %2 of the products %1, of whose type constants %c are; `results` says
/// what is made of the largest scores %m and the sums %y.
struct Attention {
  plan::Plan plan;
  plan::ScheduledKernel step;

  explicit Attention(const std::string& capped, const std::string& type = "f16", const std::string& results = "") {
    const std::string all = " : " + type + "[8, 512, 512]\n", rows = " : " + type + "[8, 512, 1]\n";
    std::string text =
        "graph \"attention\" {\n%q = input \"q\" : T[8, 512, 64]\n%k = input \"k\" : T[8, 512, 64]\n"
        "%v = input \"v\" : T[8, 512, 64]\n%c = constant {50} : T[]\n%low = constant 0x00fc : f16[]\n"
        "%b = input \"mask\" : bool[512, 512]\n"
        "%1 = dot batch_a=[0] batch_b=[0] contract_a=[2] contract_b=[2] %q %k" +
        all + capped + "%r = reduce_max axes=[2] %2 : T[8, 512]\n%m = reshape %r" + rows + "%f = sub %2 %m" + all +
        "%e = exp %f" + all + "%s = reduce_sum axes=[2] %e : T[8, 512]\n%t = reshape %s" + rows + "%w = div %e %t" +
        all + "%y = dot batch_a=[0] batch_b=[0] contract_a=[2] contract_b=[1] %w %v : T[8, 512, 64]\n" +
        (results.empty() ? "output \"y\" = %y\n" : results) + "}";
    plan = must(plan::make_plan(must(ir::parse(numbered(with_types(text, type)))), discrete_gpu_with_whole_tiles()));
    std::vector<plan::ScheduledKernel> steps = must(plan::schedule_all(plan, {}));
    if (steps.size() != 1) throw std::runtime_error(std::to_string(steps.size()) + " kernels");
    step = std::move(steps.front());
  }

  /// T is the type, and * ends a line with the sizes of all scores.
  static std::string with_types(const std::string& text, const std::string& type) {
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == 'T' && text[i + 1] == '[') {
        result += type;
      } else if (text[i] == '*') {
        result += " : " + type + "[8, 512, 512]\n";
      } else {
        result += text[i];
      }
    }
    return result;
  }

  [[nodiscard]] std::optional<Softcap> softcap() const {
    const auto* params = step.schedule.get_if<schedule::AttentionParams>();
    if (params == nullptr) throw std::runtime_error("this is no attention");
    return lowering::find_softcap({plan.graph, step.loops, *params});
  }
};

TEST(Softcap, ScoresThatATanhBoundsAreOne) {
  const std::optional<Softcap> softcap = Attention("%d = div %1 %c*%a = tanh %d*%2 = mul %a %c*").softcap();
  ASSERT_TRUE(softcap);
  EXPECT_EQ(softcap->inner, 1.0 / 50);
  EXPECT_EQ(softcap->outer, 50);
  EXPECT_TRUE(softcap->scaled);
}

TEST(Softcap, AMaskMayBeAboutIt) {
  EXPECT_TRUE(Attention("%d = div %1 %c*%a = tanh %d*%n = mul %c %a*%2 = select %b %n %low*").softcap());
}

TEST(Softcap, AnotherFunctionOrF32IsNone) {
  EXPECT_FALSE(Attention("%d = div %1 %c*%2 = tanh %d*", "f32").softcap()) << "f32 rounds less than the step does";
  EXPECT_FALSE(Attention("%d = div %1 %c*%a = sin %d*%2 = mul %a %c*").softcap());
}

TEST(Softcap, IsOneStep) {
  const Attention attention("%d = div %1 %c*%a = tanh %d*%2 = mul %a %c*");
  const std::optional<Softcap> softcap = attention.softcap();
  ASSERT_TRUE(softcap && softcap->scaled);
  lowering::ValueForms forms(attention.step.loops.values.size());
  lowering::compute_at_once(*softcap, attention.step.loops, forms);
  EXPECT_EQ(forms[softcap->softcapped].kind, ValueForm::Kind::softcap);
  EXPECT_FLOAT_EQ(forms[softcap->softcapped].outer, static_cast<float>(50 * std::numbers::log2e));
  EXPECT_EQ(forms[softcap->softcapped].factor, 0) << "the division has it";
  EXPECT_EQ(forms[*softcap->scaled].kind, ValueForm::Kind::product);
  EXPECT_FLOAT_EQ(forms[*softcap->scaled].factor, static_cast<float>(2 * std::numbers::log2e / 50));
  EXPECT_EQ(forms[softcap->tanh].kind, ValueForm::Kind::same);
}

}  // namespace
}  // namespace vkfuse::test
