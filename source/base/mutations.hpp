// Known faults that programs built for it (VKFUSE_MUTATIONS; vkfuse-faulty-KIND) plant at run time, one at a time, to
// show that a test catches each: scripts/mutations.sh. In every other build a switch is the right expression and
// nothing else.
#pragma once

#ifdef VKFUSE_MUTATIONS
#include <cstdlib>
#include <string_view>
#endif

// X(fault, program of the tests, filter of the tests that must fail)
#define VKF_MUTATIONS(X)                                                                     \
  X(dropped_tail_mask, differential, "*Rows.AreExactUpToTheLastWord*")                       \
  X(one_chunk_too_many, differential, "*Rows.AreExactUpToTheLastWord*:Differential.BiasOf*") \
  X(lost_row_of_workgroups, differential, "Differential.MoreWorkgroups*")                    \
  X(stores_behind_the_end, fuzz, "*FoundGraphs*Tail*")                                       \
  X(identity_of_max, differential, "*Reductions.*/f32")                                      \
  X(seed_of_random, differential, "Dropout.StandsInTheKernel*")                              \
  X(swapped_choice, differential, "*Views.*F32/pad_*")                                       \
  X(no_rounding_in_strict, fuzz, "Fuzz.Strict")                                              \
  X(unclamped_position, differential, "ViewChains.PositionsOutOfRange*")                     \
  X(unstable_sort, differential, "*Sorts.*/i8")                                              \
  X(ascending_for_descending, differential, "*Sorts.*/f32")                                  \
  X(skipped_thread, differential, "*Reductions.*/f32")                                       \
  X(odd_workgroups, differential, "Limits.WhatWasWrongOnce*")                                \
  X(unbounded_kernels, unit, "Budget.*")                                                     \
  X(skipped_thread_without_subgroups, differential, "Rows.WithoutSubgroups*")                \
  X(softmax_not_rescaled, differential, "*Forced.*/softmax")                                 \
  X(last_of_equals, differential, "*Reductions.*/i8")                                        \
  X(nan_is_not_first, differential, "Rows.InfinitiesAndNaN*")                                \
  X(lost_carry, differential, "*Scans.*/f32")                                                \
  X(bits_not_cleared, fuzz, "*FoundGraphs*Tail*")                                            \
  X(window_stride, differential, "*Pools.*/side_by_side")                                    \
  X(window_dilation, differential, "*Pools.*/dilated")                                       \
  X(pad_before, differential, "*Views.*F32/pad_*")                                           \
  X(concat_begin, differential, "*Views.*F32/concat_*")                                      \
  X(slice_step, differential, "*Views.*F32/slice_every_*")                                   \
  X(reverse_by_one, differential, "*Views.*F32/reverse_*")                                   \
  X(permute_inverse, differential, "*Views.*F32/permute")                                    \
  X(assignment_without_steps, fuzz, "*FoundGraphs*Choice*")                                  \
  X(scan_direction, differential, "*Scans.*/f32")                                            \
  X(choice_inside_a_reduction, fuzz, "*FoundGraphs*Choice*")                                 \
  X(uncounted_scan_steps, differential, "*LongLoops*scan_across_threads*")                   \
  X(axes_behind_data, fuzz, "*FoundGraphs*PickedByData*")                                    \
  X(remainder_bound, unit, "IndexRules.*:IndexFuzz.*")                                       \
  X(short_lifetime, unit, "Memory.*")                                                        \
  X(budget_unchecked, unit, "MemoryBudget.*")                                                \
  X(key_without_budget, unit, "MemoryBudget.*")                                              \
  X(alias_offset, differential, "*Aliases.*/slice*")                                         \
  X(update_past_the_end, differential, "*UpdatedRows.*")                                     \
  X(negative_row_first, differential, "*PlacedRows.*")                                       \
  X(base_not_copied, differential, "*UpdatedRows.*")                                         \
  X(one_clamp_for_all, differential, "Gathers.ClampToEachTable")                             \
  X(unchecked_store_hash, unit, "Store.TenThousandDamagedFilesAreMisses")                    \
  X(stale_store_key, unit, "ProgramStore.AnotherProgram*")                                   \
  X(widened_by_a_conversion, unit, "DeviceRows.*")                                           \
  X(equal_payloads, unit, "Passes.*")                                                        \
  X(inexact_literal, unit, "Passes.*")                                                       \
  X(missing_barrier, unit, "Barriers.*")                                                     \
  X(dropped_last_kernel, differential, "Dot.ProductsInARow*")                                \
  X(stale_kernel, differential, "ViewChains.ViewsOfViews*")                                  \
  X(lost_device_forgotten, unit, "LostTest.*")                                               \
  X(mask_bound_too_far, differential, "Attention.WalksThrough*")                             \
  X(channels_last_padding, differential, "ChannelsLast.*Images")                             \
  X(words_of_padding, differential, "*Stencils.ChannelsLastOfImages*")                       \
  X(end_of_run_lost, differential, "*RecomputedProducts*grouped")                            \
  X(masked_rows_forgotten, differential, "*Masks.Rows*")                                     \
  X(padding_is_seen, differential, "PaddedRows.*")                                           \
  X(weights_beyond_keys, differential, "ChainsOfProducts.*")                                 \
  X(subgroups_joined_unscaled, differential, "Attention.BySubgroups*")                       \
  X(blocks_between_parts_lost, differential, "*CachedAttention.IsWhat*/halves")              \
  X(joined_too_early, differential, "*CachedAttention.IsWhat*/halves")                       \
  X(float_zero_point_lost, differential, "OfBytes/Fields.*/u4_less_eight_as_floats")         \
  X(shared_output, differential, "*HarmfulSharing*:*HarmIsRefused*")                         \
  X(unchecked_plan_digest, unit, "PlanFile.*")                                               \
  X(unchecked_plan_schedule, unit, "PlanFile.*")                                             \
  X(number_of_other_sizes, unit, "Numbers.*")                                                \
  X(model_numbers_of_duplicates, unit, "DynamicShapes.StepsThatRepeat*")                     \
  X(bindings_of_duplicates, unit, "DynamicShapes.DuplicatesThatFallBack*")                   \
  X(unchecked_duplicates, unit, "DynamicShapes.DuplicatesThatFallBack*")                     \
  X(dispatch_parts_share_words, unit, "Pieces.*")                                            \
  X(noise_adopted, unit, "Tuning.WhatIsFasterByNoMore*")                                     \
  X(wrong_candidate, unit, "Tuning.OtherResultsAreNoCandidate")                              \
  X(over_what_others_read, unit, "Donations.WhatAnotherResultReads*")                        \
  X(early_copy_never_forgotten, unit, "ChangedResults.*")                                    \
  X(plan_of_representative_sizes, fuzz, "FoundByFuzzing.PlansForOtherSizes")                 \
  X(parts_not_rescaled, differential, "Norms.CrossEntropy*")                                 \
  X(views_never_stored, unit, "Partition.ViewsAreStored*")                                   \
  X(loops_left_early, differential, "*LongLoops*")                                           \
  X(name_inside_a_name, unit, "Code.AFunctionWhoseNameEndsLike*")                            \
  X(wrong_tier_in_use, unit, "*SelfTest.FindsIt*/shuffles*")                                 \
  X(member_joined_twice, parallel, "Collectives.OfEveryDtype")                               \
  X(halves_rounded_each_time, parallel, "Collectives.HalvesAreAddedUp*")                     \
  X(gathered_along_the_first_axis, parallel, "Collectives.OfEveryKind*")                     \
  X(means_of_parts_added, parallel, "Sharding.ReductionsAlongTheDividedAxis*")               \
  X(part_of_the_first_rank, parallel, "Edges.RandomNumbersAre*")                             \
  X(value_of_another_stage, parallel, "Stages.AValueCrosses*")                               \
  X(first_micro_batch_again, parallel, "MicroBatches.AreTheWhole*")                          \
  X(late_deadline, parallel, "Faults.ARankThatIsGone*")                                      \
  X(digest_of_the_count, parallel, "Faults.AnotherProgramIsAnError*")                        \
  X(run_of_another_program, parallel, "Faults.RunsOfOtherPrograms*")

#ifdef VKFUSE_MUTATIONS
namespace vkfuse {

#define VKF_NAME_OF(fault, program, filter) fault,
enum class Mutation : int { VKF_MUTATIONS(VKF_NAME_OF) };
#undef VKF_NAME_OF

/// Whether VKFUSE_MUTATION names it.
inline bool planted(Mutation mutation) {
#define VKF_TEXT_OF(fault, program, filter) #fault,
  static constexpr std::string_view names[] = {VKF_MUTATIONS(VKF_TEXT_OF)};
#undef VKF_TEXT_OF
  const char* const wanted = std::getenv("VKFUSE_MUTATION");
  return wanted != nullptr && names[static_cast<int>(mutation)] == wanted;
}

}  // namespace vkfuse
#define VKF_PLANT(fault, right, wrong) (::vkfuse::planted(::vkfuse::Mutation::fault) ? (wrong) : (right))
#else
#define VKF_PLANT(fault, right, wrong) (right)
#endif
