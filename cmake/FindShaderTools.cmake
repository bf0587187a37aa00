# vkfuse::shader_tools    shaderc, SPIRV-Tools and the SPIRV-Cross C API
# vkfuse::vulkan_headers  headers only: the loader is opened at run time
#
# VKFUSE_STATIC_TOOLS: all of them inside the program, for one that is carried to other machines.
#
# VKFUSE_SHADERC_LIBRARY: a shared shaderc to link with whatever else is found (scripts/newer-shaderc.sh).
#
# A Vulkan SDK or newer packages in CMAKE_PREFIX_PATH come first. Debian 12's shared shaderc is
# under-linked (41 undefined symbols), so the shared one is used only if a program links with it;
# otherwise the static libraries of the same package are.
include(CheckCXXSourceCompiles)
option(VKFUSE_STATIC_TOOLS "Link shaderc, SPIRV-Tools and SPIRV-Cross statically" OFF)
set(VKFUSE_SHADERC_LIBRARY "" CACHE FILEPATH "A shared shaderc to link with in place of the one that is found")

find_path(VKFUSE_VULKAN_INCLUDE vulkan/vulkan_core.h PATHS $ENV{VULKAN_SDK}/include REQUIRED)
add_library(vkfuse_vulkan_headers INTERFACE)
target_include_directories(vkfuse_vulkan_headers SYSTEM INTERFACE ${VKFUSE_VULKAN_INCLUDE})
add_library(vkfuse::vulkan_headers ALIAS vkfuse_vulkan_headers)

find_path(VKFUSE_SHADERC_INCLUDE shaderc/shaderc.h PATHS $ENV{VULKAN_SDK}/include REQUIRED)
find_path(VKFUSE_CROSS_INCLUDE spirv_cross_c.h PATH_SUFFIXES spirv_cross PATHS $ENV{VULKAN_SDK}/include REQUIRED)
if(VKFUSE_STATIC_TOOLS)
  set(VKFUSE_CROSS_LIBRARY)
  foreach(part c glsl hlsl msl cpp reflect core)
    find_library(VKFUSE_CROSS_${part} NAMES libspirv-cross-${part}.a PATHS $ENV{VULKAN_SDK}/lib REQUIRED)
    list(APPEND VKFUSE_CROSS_LIBRARY ${VKFUSE_CROSS_${part}})
  endforeach()
else()
  find_library(VKFUSE_CROSS_LIBRARY spirv-cross-c-shared PATHS $ENV{VULKAN_SDK}/lib REQUIRED)
endif()
find_library(VKFUSE_SHADERC_SHARED NAMES shaderc_shared shaderc PATHS $ENV{VULKAN_SDK}/lib)
find_library(VKFUSE_SPIRV_TOOLS NAMES SPIRV-Tools PATHS $ENV{VULKAN_SDK}/lib REQUIRED)

set(CMAKE_REQUIRED_INCLUDES ${VKFUSE_SHADERC_INCLUDE})
set(CMAKE_REQUIRED_LIBRARIES ${VKFUSE_SHADERC_SHARED})
separate_arguments(CMAKE_REQUIRED_LINK_OPTIONS NATIVE_COMMAND "${CMAKE_EXE_LINKER_FLAGS}")
check_cxx_source_compiles("#include <shaderc/shaderc.h>
int main() { shaderc_compiler_t c = shaderc_compiler_initialize(); shaderc_compiler_release(c); }"
  VKFUSE_SHADERC_SHARED_LINKS)
unset(CMAKE_REQUIRED_LIBRARIES)
unset(CMAKE_REQUIRED_INCLUDES)
unset(CMAKE_REQUIRED_LINK_OPTIONS)

# Kernels are kept on disk under what compiled them: a digest of the libraries that go into the program. Where they are
# shared, what is loaded when it runs is added there.
function(vkfuse_digest output)
  set(digests)
  foreach(library ${ARGN})
    file(SHA256 ${library} digest)
    string(APPEND digests ${digest})
  endforeach()
  string(SHA256 digest "${digests}")
  string(SUBSTRING ${digest} 0 16 digest)
  set(${output} ${digest} PARENT_SCOPE)
endfunction()

add_library(vkfuse_shader_tools INTERFACE)
target_include_directories(vkfuse_shader_tools SYSTEM INTERFACE ${VKFUSE_SHADERC_INCLUDE} ${VKFUSE_CROSS_INCLUDE})
if(VKFUSE_SHADERC_LIBRARY)
  target_link_libraries(vkfuse_shader_tools INTERFACE
    ${VKFUSE_SHADERC_LIBRARY} ${VKFUSE_SPIRV_TOOLS} ${VKFUSE_CROSS_LIBRARY})
  vkfuse_digest(VKFUSE_SHADERC_ID ${VKFUSE_SHADERC_LIBRARY})
elseif(VKFUSE_SHADERC_SHARED AND VKFUSE_SHADERC_SHARED_LINKS AND NOT VKFUSE_STATIC_TOOLS)
  target_link_libraries(vkfuse_shader_tools INTERFACE
    ${VKFUSE_SHADERC_SHARED} ${VKFUSE_SPIRV_TOOLS} ${VKFUSE_CROSS_LIBRARY})
  vkfuse_digest(VKFUSE_SHADERC_ID ${VKFUSE_SHADERC_SHARED})
else()
  find_library(VKFUSE_SHADERC_STATIC NAMES libshaderc_combined.a shaderc_combined REQUIRED)
  set(parts)
  foreach(part SPIRV glslang MachineIndependent GenericCodeGen OSDependent OGLCompiler SPIRV-Tools-opt SPIRV-Tools)
    find_library(VKFUSE_PART_${part} NAMES lib${part}.a ${part})
    if(VKFUSE_PART_${part})
      list(APPEND parts ${VKFUSE_PART_${part}})
    endif()
  endforeach()
  vkfuse_digest(VKFUSE_SHADERC_ID ${VKFUSE_SHADERC_STATIC} ${parts})
  target_link_libraries(vkfuse_shader_tools INTERFACE
    -Wl,--start-group ${VKFUSE_SHADERC_STATIC} ${parts} -Wl,--end-group ${VKFUSE_CROSS_LIBRARY})
  message(STATUS "shaderc: the shared library does not link by itself; using ${VKFUSE_SHADERC_STATIC}")
endif()
add_library(vkfuse::shader_tools ALIAS vkfuse_shader_tools)

# What the package beside the library calls its version; shaderc itself has no function for it. Empty without a package.
set(VKFUSE_SHADERC_VERSION "")
foreach(library ${VKFUSE_SHADERC_LIBRARY} ${VKFUSE_SHADERC_SHARED} ${VKFUSE_SHADERC_STATIC})
  cmake_path(GET library PARENT_PATH folder)
  if(EXISTS ${folder}/pkgconfig/shaderc.pc)
    file(STRINGS ${folder}/pkgconfig/shaderc.pc version REGEX "^Version:")
    string(REGEX REPLACE "^Version: *v?" "" VKFUSE_SHADERC_VERSION "${version}")
  endif()
endforeach()
