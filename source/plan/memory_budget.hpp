// A plan whose intermediate values fit a budget.
#pragma once

#include "plan/plan.hpp"

namespace vkfuse::plan {

/// The plan, if its arena takes no more than so many bytes at these sizes; else one of the same kernels in another
/// order, some of which run again rather than keeping what they have computed: of those that fit, the one that is
/// modelled fastest. ErrorCode::out_of_memory, with the fewest bytes that were found, if none fits.
Result<Plan> within_budget(Plan plan, std::int64_t budget, const SymbolValues& sizes);

/// The kernels of a form of the graph in an order: what within_budget() makes, for plans that were saved.
Result<Plan> plan_in_order(const Plan& plan, const StepOrder& order);

}  // namespace vkfuse::plan
