// Every number of a row by name. A new member of a structure of DeviceModel is a line here.
#include "device_model/device_model.hpp"

namespace vkfuse {

namespace {

template <auto group, auto member>
constexpr Figure figure(std::string_view group_name, std::string_view name, std::string_view unit = "") {
  return {group_name, name, unit, [](const DeviceModel& model) -> const Number& { return model.*group.*member; },
          [](DeviceModel& model, const Number& number) { model.*group.*member = number; }};
}

template <auto group, auto member>
constexpr Figure of_matrices(std::string_view group_name, std::string_view name) {
  return {group_name, name, "", [](const DeviceModel& model) -> const Number& { return model.matrices.*group.*member; },
          [](DeviceModel& model, const Number& number) { model.matrices.*group.*member = number; }};
}

constexpr Figure kFigures[] = {
    figure<&DeviceModel::units, &ComputeUnits::count>("units", "count"),
    figure<&DeviceModel::units, &ComputeUnits::multiply_adds>("units", "multiply_adds", "a cycle"),
    figure<&DeviceModel::units, &ComputeUnits::matrix_multiply_adds>("units", "matrix_multiply_adds", "a cycle"),
    figure<&DeviceModel::units, &ComputeUnits::transcendentals>("units", "transcendentals", "a cycle"),
    figure<&DeviceModel::units, &ComputeUnits::subgroup_instructions>("units", "subgroup_instructions", "a cycle"),
    figure<&DeviceModel::units, &ComputeUnits::shared_memory_bytes>("units", "shared_memory_bytes", "bytes a cycle"),
    figure<&DeviceModel::units, &ComputeUnits::last_level_cache_bytes>("units", "last_level_cache_bytes",
                                                                       "bytes a cycle"),
    figure<&DeviceModel::units, &ComputeUnits::memory_bytes>("units", "memory_bytes", "bytes a cycle"),
    figure<&DeviceModel::units, &ComputeUnits::cache_line_bytes>("units", "cache_line_bytes", "bytes"),
    figure<&DeviceModel::units, &ComputeUnits::registers>("units", "registers"),
    figure<&DeviceModel::units, &ComputeUnits::threads>("units", "threads"),
    figure<&DeviceModel::units, &ComputeUnits::shared_memory>("units", "shared_memory", "bytes"),
    figure<&DeviceModel::units, &ComputeUnits::workgroup_shared_memory>("units", "workgroup_shared_memory", "bytes"),
    figure<&DeviceModel::units, &ComputeUnits::registers_per_thread>("units", "registers_per_thread"),
    figure<&DeviceModel::registers, &PlannedRegisters::per_thread>("registers", "per_thread"),
    figure<&DeviceModel::registers, &PlannedRegisters::per_workgroup>("registers", "per_workgroup"),
    figure<&DeviceModel::registers, &PlannedRegisters::elsewhere>("registers", "elsewhere"),
    figure<&DeviceModel::registers, &PlannedRegisters::of_moved_load>("registers", "of_moved_load"),
    figure<&DeviceModel::registers, &PlannedRegisters::of_hardware_thread>("registers", "of_hardware_thread"),
    figure<&DeviceModel::registers, &PlannedRegisters::subgroup>("registers", "subgroup"),
    figure<&DeviceModel::latencies, &Latencies::shared_memory>("latencies", "shared_memory", "cycles"),
    figure<&DeviceModel::latencies, &Latencies::last_level_cache>("latencies", "last_level_cache", "cycles"),
    figure<&DeviceModel::latencies, &Latencies::memory>("latencies", "memory", "cycles"),
    figure<&DeviceModel::caches, &Caches::bandwidth>("caches", "bandwidth"),
    figure<&DeviceModel::caches, &Caches::sector_bandwidth>("caches", "sector_bandwidth"),
    figure<&DeviceModel::caches, &Caches::bytes>("caches", "bytes", "bytes"),
    figure<&DeviceModel::caches, &Caches::tile_bytes>("caches", "tile_bytes", "bytes"),
    figure<&DeviceModel::occupancy, &Occupancy::rows_to_overlap>("occupancy", "rows_to_overlap"),
    figure<&DeviceModel::occupancy, &Occupancy::workgroups>("occupancy", "workgroups"),
    figure<&DeviceModel::occupancy, &Occupancy::rows_in_flight>("occupancy", "rows_in_flight"),
    figure<&DeviceModel::pressure, &RegisterPressure::matmul_registers>("pressure", "matmul_registers"),
    figure<&DeviceModel::pressure, &RegisterPressure::attention_registers>("pressure", "attention_registers"),
    figure<&DeviceModel::pressure, &RegisterPressure::slowdown>("pressure", "slowdown"),
    figure<&DeviceModel::transposition, &Transposition::workgroup_bytes>("transposition", "workgroup_bytes", "bytes"),
    figure<&DeviceModel::transposition, &Transposition::run_bytes>("transposition", "run_bytes", "bytes"),
    figure<&DeviceModel::packed_gemv, &PackedGemv::threads>("packed_gemv", "threads"),
    figure<&DeviceModel::packed_gemv, &PackedGemv::subgroups>("packed_gemv", "subgroups"),
    figure<&DeviceModel::packed_gemv, &PackedGemv::copy_share>("packed_gemv", "copy_share"),
    figure<&DeviceModel::packed_gemv, &PackedGemv::bytes_per_us_and_subgroup>("packed_gemv",
                                                                              "bytes_per_us_and_subgroup", "bytes"),
    figure<&DeviceModel::packed_gemv, &PackedGemv::first_us>("packed_gemv", "first_us", "us"),
    figure<&DeviceModel::attention, &AttentionRates::threads>("attention", "threads"),
    figure<&DeviceModel::attention, &AttentionRates::exponential>("attention", "exponential"),
    figure<&DeviceModel::attention, &AttentionRates::cooperative_matrix_speedup>("attention",
                                                                                 "cooperative_matrix_speedup"),
    of_matrices<&CooperativeMatrices::step, &MatrixStep::products>("matrices.step", "products"),
    of_matrices<&CooperativeMatrices::step, &MatrixStep::fragments>("matrices.step", "fragments"),
    of_matrices<&CooperativeMatrices::step, &MatrixStep::near_lines>("matrices.step", "near_lines"),
    of_matrices<&CooperativeMatrices::step, &MatrixStep::near_words>("matrices.step", "near_words"),
    of_matrices<&CooperativeMatrices::step, &MatrixStep::tile_stores>("matrices.step", "tile_stores"),
    of_matrices<&CooperativeMatrices::step, &MatrixStep::far>("matrices.step", "far"),
    of_matrices<&CooperativeMatrices::step, &MatrixStep::far_unaligned>("matrices.step", "far_unaligned"),
    of_matrices<&CooperativeMatrices::step, &MatrixStep::barriers>("matrices.step", "barriers"),
    of_matrices<&CooperativeMatrices::step, &MatrixStep::latency>("matrices.step", "latency"),
    of_matrices<&CooperativeMatrices::step, &MatrixStep::latency_of_unaligned>("matrices.step", "latency_of_unaligned"),
    of_matrices<&CooperativeMatrices::step, &MatrixStep::chain>("matrices.step", "chain"),
    of_matrices<&CooperativeMatrices::step, &MatrixStep::prefetch>("matrices.step", "prefetch"),
    of_matrices<&CooperativeMatrices::step, &MatrixStep::prefetch_of_others>("matrices.step", "prefetch_of_others"),
    of_matrices<&CooperativeMatrices::step, &MatrixStep::overlap>("matrices.step", "overlap"),
    of_matrices<&CooperativeMatrices::loads, &MatrixLoads::chunk>("matrices.loads", "chunk"),
    of_matrices<&CooperativeMatrices::loads, &MatrixLoads::load>("matrices.loads", "load"),
    of_matrices<&CooperativeMatrices::loads, &MatrixLoads::unaligned_element>("matrices.loads", "unaligned_element"),
    of_matrices<&CooperativeMatrices::loads, &MatrixLoads::flattened_element>("matrices.loads", "flattened_element"),
    of_matrices<&CooperativeMatrices::loads, &MatrixLoads::single_element>("matrices.loads", "single_element"),
    of_matrices<&CooperativeMatrices::loads, &MatrixLoads::computed_element>("matrices.loads", "computed_element"),
    of_matrices<&CooperativeMatrices::registers, &MatrixRegisters::own>("matrices.registers", "own"),
    of_matrices<&CooperativeMatrices::registers, &MatrixRegisters::fragment>("matrices.registers", "fragment"),
    of_matrices<&CooperativeMatrices::registers, &MatrixRegisters::buffer>("matrices.registers", "buffer"),
    of_matrices<&CooperativeMatrices::registers, &MatrixRegisters::prefetch>("matrices.registers", "prefetch"),
    of_matrices<&CooperativeMatrices::registers, &MatrixRegisters::loading>("matrices.registers", "loading"),
    of_matrices<&CooperativeMatrices::results, &MatrixResults::instructions>("matrices.results", "instructions"),
    of_matrices<&CooperativeMatrices::results, &MatrixResults::bytes>("matrices.results", "bytes"),
    of_matrices<&CooperativeMatrices::results, &MatrixResults::of_many_bytes>("matrices.results", "of_many_bytes"),
    of_matrices<&CooperativeMatrices::results, &MatrixResults::round>("matrices.results", "round"),
    of_matrices<&CooperativeMatrices::results, &MatrixResults::round_of_loads>("matrices.results", "round_of_loads"),
    of_matrices<&CooperativeMatrices::results, &MatrixResults::start>("matrices.results", "start"),
    of_matrices<&CooperativeMatrices::results, &MatrixResults::last_wave>("matrices.results", "last_wave"),
    of_matrices<&CooperativeMatrices::kernels, &MatrixKernels::visible_epilogue>("matrices.kernels",
                                                                                 "visible_epilogue"),
    of_matrices<&CooperativeMatrices::kernels, &MatrixKernels::sum_that_hides_reductions>("matrices.kernels",
                                                                                          "sum_that_hides_reductions"),
    of_matrices<&CooperativeMatrices::kernels, &MatrixKernels::edges>("matrices.kernels", "edges"),
    of_matrices<&CooperativeMatrices::kernels, &MatrixKernels::workgroup_scope_gain>("matrices.kernels",
                                                                                     "workgroup_scope_gain"),
    of_matrices<&CooperativeMatrices::kernels, &MatrixKernels::workgroup_scope_epilogue>("matrices.kernels",
                                                                                         "workgroup_scope_epilogue"),
    of_matrices<&CooperativeMatrices::kernels, &MatrixKernels::workgroup_scope_short_sum>("matrices.kernels",
                                                                                          "workgroup_scope_short_sum"),
    of_matrices<&CooperativeMatrices::kernels, &MatrixKernels::workgroup_scope_multiply_adds>(
        "matrices.kernels", "workgroup_scope_multiply_adds"),
    of_matrices<&CooperativeMatrices::kernels, &MatrixKernels::projections_slowdown>("matrices.kernels",
                                                                                     "projections_slowdown"),
    of_matrices<&CooperativeMatrices::kernels, &MatrixKernels::matmul_registers>("matrices.kernels",
                                                                                 "matmul_registers"),
    of_matrices<&CooperativeMatrices::kernels, &MatrixKernels::attention_registers>("matrices.kernels",
                                                                                    "attention_registers"),
};
static_assert(sizeof(DeviceModel) == sizeof(std::string_view) + std::size(kFigures) * sizeof(Number),
              "every number of a row has a line");

}  // namespace

std::span<const Figure> figures() { return kFigures; }

}  // namespace vkfuse
