#include "templates/planning.hpp"

#include <algorithm>
#include <array>

#include "templates/attention/candidates.hpp"
#include "templates/custom/candidates.hpp"
#include "templates/matmul/candidates.hpp"
#include "templates/pointwise/candidates.hpp"
#include "templates/reduction/candidates.hpp"
#include "templates/sort/candidates.hpp"
#include "templates/stencil/candidates.hpp"
#include "templates/transpose/candidates.hpp"

namespace vkfuse::schedule {

namespace {

bool has_kind(const segment::Loops& loops, segment::Value::Kind kind) {
  return std::any_of(loops.values.begin(), loops.values.end(),
                     [&](const segment::Value& value) { return value.kind == kind; });
}

bool sorts(const Problem& problem) { return has_kind(problem.loops, segment::Value::Kind::sort); }
bool reduces(const Problem& problem) {
  return !problem.loops.opaque && problem.loops.columns() != 0 && !sorts(problem);
}
bool maps(const Problem& problem) { return !problem.loops.opaque && problem.loops.columns() == 0 && !sorts(problem); }
bool updates(const Problem& problem) {
  const auto& stores = problem.loops.stores;
  return std::any_of(stores.begin(), stores.end(), [](const segment::Store& store) { return store.base.has_value(); });
}
bool has_epilogues(const segment::Loops& loops) { return has_kind(loops, segment::Value::Kind::epilogue); }

bool has_fewer_rows(const segment::Loops& loops) {
  return std::any_of(loops.stores.begin(), loops.stores.end(),
                     [](const segment::Store& store) { return store.has_fewer_rows(); });
}

bool may_contract(const Problem& problem) {
  return reduces(problem) && !has_fewer_rows(problem.loops) &&
         (problem.tuning.matmul.value_or(true) || has_epilogues(problem.loops) || problem.loops.inner() != 0);
}

/// Whether a tuning asks for what contracts wherever that is possible.
bool asks_for_contraction(const Tuning& tuning) {
  return tuning.matmul.value_or(false) || tuning.attention.has_value();
}
bool asks_for_stencil(const Tuning& tuning) { return tuning.stencil.has_value(); }
bool asks_for_transpose(const Tuning& tuning) { return tuning.tiled.has_value(); }

/// Why loops that only tiles of a contraction can run are no kernel without them; nothing of other loops.
Result<void> check_reducible(const segment::Loops& loops) {
  if (has_fewer_rows(loops))
    return unsupported(
        "A result that has fewer axes than the kernel's rows is stored by kernels of attention alone, as the logarithm "
        "of the sum of a softmax is.");
  if (loops.inner() != 0)
    return unsupported(
        "A contraction at every element of rows that are folded is one kernel where they are a softmax whose weights "
        "are multiplied and added up, or where a tile of the product has whole rows, of at most 256 elements each; a "
        "reduction of its own beside a contraction is where it is of rows of the first factor.");
  if (has_epilogues(loops))
    return unsupported(
        "A product and reductions of its results are one kernel where tiles have whole rows of what is folded: a "
        "multiple of four, at most 256 elements.");
  return {};
}

using Found = std::optional<Result<Schedule>>;  ///< nothing: the loops are no such thing

Found found(std::optional<Schedule> schedule) { return schedule ? Found(*std::move(schedule)) : std::nullopt; }

/// A template, as planning sees it: one row per folder, in the order in which they are tried.
struct TemplateRow {
  Template kind;
  bool (*match)(const Problem& problem);  ///< whether loops of this form may be scheduled by it
  Found (*best)(const Problem& problem);
  bool (*is_asked_for)(const Tuning& tuning);  ///< whether it is taken wherever it is possible; null: never
  std::optional<Template> unless;              ///< not tried where that one has a schedule
  /// Null: it has a text of its own at each size.
  std::optional<Schedule> (*at_other_sizes)(const Problem& problem, const Schedule& model);
  std::vector<Tuning> (*tunings)(const Schedule& standard, const Caps& caps);             ///< null: there are none
  bool (*keeps_sum_chains_short)(const segment::Loops& loops, const Schedule& schedule);  ///< null: always
  void (*describe)(const Schedule& schedule, Description& description);                   ///< null: nothing of its own
};

constexpr std::array kTemplates = {
    TemplateRow{.kind = Template::custom,
                .match = [](const Problem& problem) { return problem.loops.opaque; },
                .best = [](const Problem& problem) -> Found { return best_custom(problem); }},
    TemplateRow{.kind = Template::sort,
                .match = sorts,
                .best = [](const Problem& problem) -> Found { return best_sort(problem); },
                .at_other_sizes = sort_at_other_sizes,
                .tunings = sort_tunings},
    TemplateRow{.kind = Template::pointwise,
                .match = maps,
                .best = [](const Problem& problem) -> Found { return best_pointwise(problem); },
                .at_other_sizes = pointwise_at_other_sizes,
                .tunings = pointwise_tunings},
    TemplateRow{.kind = Template::transpose,
                .match =
                    [](const Problem& problem) {
                      return maps(problem) && !updates(problem) && problem.tuning.tiled.value_or(true);
                    },
                .best = [](const Problem& problem) { return found(best_transpose(problem)); },
                .is_asked_for = asks_for_transpose,
                .at_other_sizes = transpose_at_other_sizes,
                .tunings = pointwise_tunings,
                .describe = describe_transpose},
    TemplateRow{.kind = Template::reduction,
                .match = reduces,
                .best = [](const Problem& problem) -> Found {
                  if (const auto possible = check_reducible(problem.loops); !possible.ok()) return possible.error();
                  return best_reduction(problem);
                },
                .at_other_sizes = reduction_at_other_sizes,
                .tunings = reduction_tunings,
                .keeps_sum_chains_short = keeps_chains_short,
                .describe = describe_reduction},
    TemplateRow{.kind = Template::stencil,
                .match = [](const Problem& problem) { return reduces(problem) && !has_fewer_rows(problem.loops); },
                .best = [](const Problem& problem) { return found(best_stencil(problem)); },
                .is_asked_for = asks_for_stencil,
                .at_other_sizes = stencil_at_other_sizes,
                .tunings = stencil_tunings,
                .describe = describe_stencil},
    TemplateRow{.kind = Template::matmul,
                .match = may_contract,
                .best = [](const Problem& problem) { return found(best_matmul(problem)); },
                .is_asked_for = asks_for_contraction,
                .at_other_sizes = matmul_at_other_sizes,
                .tunings = matmul_tunings,
                .describe = describe_matmul},
    TemplateRow{.kind = Template::attention,
                .match = reduces,
                .best = [](const Problem& problem) { return found(best_attention(problem)); },
                .is_asked_for = asks_for_contraction,
                .unless = Template::matmul,
                .at_other_sizes = attention_at_other_sizes,
                .tunings = attention_tunings,
                .describe = describe_attention},
};

const TemplateRow& row_of(Template kind) {
  const auto row =
      std::find_if(kTemplates.begin(), kTemplates.end(), [&](const TemplateRow& one) { return one.kind == kind; });
  check(row != kTemplates.end(), "every template has a row");
  return *row;
}

/// Whether a schedule is taken in place of the best one of the rows before it: of equal ones, the simpler stays.
bool is_better(const Schedule& one, const Schedule& best, const Tuning& tuning) {
  const auto asked_for = [&](const Schedule& schedule) {
    const auto asks = row_of(schedule.kind()).is_asked_for;
    return asks != nullptr && asks(tuning);
  };
  if (asked_for(one) != asked_for(best)) return asked_for(one);
  return one.cost.modelled_us < best.cost.modelled_us;
}

}  // namespace

Result<Schedule> best(const ir::Graph& graph, const segment::Loops& loops, const Target& target, const Tuning& tuning,
                      segment::AxisSet varying) {
  const Problem problem{graph, loops, target, tuning, varying};
  Found chosen;
  std::optional<Template> last;  // that had a schedule
  for (const TemplateRow& row : kTemplates) {
    if (!row.match(problem) || (row.unless && row.unless == last)) continue;
    Found one = row.best(problem);
    if (!one) continue;
    if (one->ok()) last = row.kind;
    if (!chosen || (one->ok() && (!chosen->ok() || is_better(**one, **chosen, tuning)))) chosen = std::move(one);
  }
  check(chosen.has_value(), "some template matches any loops");
  return *std::move(chosen);
}

std::optional<Schedule> at_other_sizes(const ir::Graph& graph, const segment::Loops& loops, const Target& target,
                                       const Tuning& tuning, const Schedule& model) {
  if (loops.values.size() != model.loads.size() || loops.stores.size() != model.stores.size() || loops.empty)
    return std::nullopt;
  const TemplateRow& row = row_of(model.kind());
  if (row.at_other_sizes == nullptr) return std::nullopt;
  auto schedule = row.at_other_sizes({graph, loops, target, tuning}, model);
  if (!schedule) return std::nullopt;
  schedule->loads = model.loads;
  schedule->stores = model.stores;
  schedule->transforms = model.transforms;
  return schedule;
}

std::vector<Tuning> tunings_near(const Schedule& standard, const Caps& caps) {
  const TemplateRow& row = row_of(standard.kind());
  return row.tunings == nullptr ? std::vector<Tuning>() : row.tunings(standard, caps);
}

bool keeps_sum_chains_short(const segment::Loops& loops, const Schedule& schedule) {
  const TemplateRow& row = row_of(schedule.kind());
  return row.keeps_sum_chains_short == nullptr || row.keeps_sum_chains_short(loops, schedule);
}

Description describe(const Schedule& schedule) {
  Description description;
  const TemplateRow& row = row_of(schedule.kind());
  if (row.describe != nullptr) row.describe(schedule, description);
  return description;
}

}  // namespace vkfuse::schedule
