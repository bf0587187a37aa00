# vkfuse_unity_build(TARGET): CMake's unity build, in groups of at most eight sources of one folder. Headers are most of
# what a compiler reads, so a build from nothing takes half the time; an edit compiles the rest of its group, too.
option(VKFUSE_UNITY_BUILD "Compile the sources of a folder in groups (CMake's unity build)" ON)
set(VKFUSE_UNITY_SIZE 8)

# Two sources that define the same name in an anonymous namespace are not one text: not even where a compiler would take
# it, as a call could reach the other source's overload. Of the sources of a folder, these are groups by themselves.
set(VKFUSE_UNITY_APART
  bench/graph_analysis.cpp
  bench/sweep.cpp
  bench/timing.cpp
  source/api/compositions.cpp
  source/api/submit.cpp
  source/index/expr.cpp
  source/onnx/attention.cpp
  source/onnx/grid_sample.cpp
  source/onnx/load.cpp
  source/onnx/losses.cpp
  source/onnx/operator_table.cpp
  source/onnx/positions.cpp
  source/onnx/quantization.cpp
  source/onnx/slicing.cpp
  source/onnx/tensor_proto.cpp
  source/onnx/value_types.cpp
  source/ops/bits_and_logic.cpp
  source/passes/partial_statistics.cpp
  source/reference/elementwise.cpp
  source/runtime/rates.cpp
  source/runtime/shape_buckets.cpp
  source/segment/finish.cpp
  source/spirv/tools.cpp
  source/tool/validate_report.cpp
  tests/differential/alias_test.cpp
  tests/differential/dot_test.cpp
  tests/differential/packed_gemv_test.cpp
  tests/differential/scan_test.cpp
  tests/error/structured_test.cpp
  tests/fuzz/repeated_test.cpp
  tests/numeric/sweep_test.cpp
  tests/portability/radv_test.cpp
  tests/support/repeat.cpp
  tests/unit/api/stream_test.cpp
  tests/unit/lowering/random_texts_test.cpp
  tests/unit/index/transform_test.cpp
  tests/unit/onnx/contrib_test.cpp
  tests/unit/onnx/ignored_test.cpp
  tests/unit/onnx/losses_test.cpp
  tests/unit/onnx/written_forms_test.cpp
  tests/unit/plan/report_test.cpp
  tests/unit/reference/sort_test.cpp
  tests/unit/runtime/concurrency_test.cpp
  tests/unit/runtime/dynamic_shapes_test.cpp)
# These are compiled alone: what they define clashes with both kinds of groups, or a local variable hides another
# source's function, or a member's type has no name outside of its source.
set(VKFUSE_UNITY_ALONE
  bench/bench_row.cpp
  bench/peaks.cpp
  source/api/composite_table.cpp
  source/api/contractions.cpp
  source/api/generation.cpp
  source/api/convolution.cpp
  source/api/quantization.cpp
  source/api/tensor_views.cpp
  source/onnx/contrib.cpp
  source/onnx/packed_integers.cpp
  source/ops/compare.cpp
  source/ops/custom.cpp
  source/ops/reductions.cpp
  source/ops/special.cpp
  source/ops/views.cpp
  source/reference/output_comparison.cpp
  source/reference/points.cpp
  source/reference/reduction.cpp
  source/reference/sort.cpp
  tests/differential/composites_test.cpp
  tests/differential/contractions_test.cpp
  tests/differential/limits_test.cpp
  tests/differential/merged_matmuls_test.cpp
  tests/differential/norms_test.cpp
  tests/differential/views_test.cpp
  tests/fuzz/composites_test.cpp
  tests/unit/api/composites_test.cpp
  tests/unit/onnx/architectures_test.cpp
  tests/unit/onnx/contractions_test.cpp
  tests/unit/onnx/pooling_test.cpp
  tests/unit/onnx/positions_test.cpp
  tests/unit/onnx/reductions_test.cpp
  tests/unit/onnx/resize_test.cpp
  tests/unit/onnx/slicing_test.cpp
  tests/unit/runtime/figures_test.cpp
  tests/unit/runtime/store_test.cpp
  tests/unit/runtime/submission_test.cpp
  tests/differential/cached_attention_test.cpp
  tests/differential/language_models_test.cpp
  tests/differential/sampling_test.cpp
  tests/differential/updated_rows_test.cpp)

# A new fault edits this header, and decides which sources have faults.
set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/source/base/mutations.hpp)

# The name of the group of a source, without the number of the group.
function(vkfuse_unity_group file result)
  cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE path)
  cmake_path(GET path PARENT_PATH folder)
  string(REPLACE "/" "_" group ${folder})
  if(path IN_LIST VKFUSE_UNITY_APART)
    string(APPEND group _apart)
  endif()
  # Sources with faults are compiled twice (tests/CMakeLists.txt): the objects of the second time stand for those of the
  # first, which must have nothing else in them.
  file(STRINGS ${file} faults REGEX "base/mutations.hpp")
  if(faults)
    string(APPEND group _faults)
  endif()
  set(${result} ${group} PARENT_SCOPE)
endfunction()

function(vkfuse_unity_build target)
  if(NOT VKFUSE_UNITY_BUILD)
    return()
  endif()
  get_target_property(directory ${target} SOURCE_DIR)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${directory} OUTPUT_VARIABLE file)
    cmake_path(IS_PREFIX PROJECT_BINARY_DIR ${file} generated)
    # A source of two targets of a directory has one group in both.
    get_source_file_property(known ${file} TARGET_DIRECTORY ${target} UNITY_GROUP)
    cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE path)
    if(generated OR known OR path IN_LIST VKFUSE_UNITY_ALONE OR NOT path MATCHES "\\.cpp$")
      continue()
    endif()
    vkfuse_unity_group(${file} group)
    list(APPEND members_of_${group} ${file})
    list(LENGTH members_of_${group} members)
    math(EXPR number "(${members} - 1) / ${VKFUSE_UNITY_SIZE} + 1")
    set_source_files_properties(${file} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${group}_${number})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
