// What the stencil template chooses.
#pragma once

#include <cstdint>
#include <vector>

#include "segment/loops.hpp"

namespace vkfuse::schedule {

/// A reduction axis along which operands are read in windows: at step * position + dilation * tap of the window axis.
struct WindowAxis {
  int position = 0;  ///< a parallel axis
  int tap = 0;       ///< a reduction axis
  std::int64_t step = 1, dilation = 1;
  friend bool operator==(const WindowAxis&, const WindowAxis&) = default;
};

/// What values of the loops are to windows.
enum class StencilRole : std::uint8_t {
  result,  ///< known when the reductions are
  fixed,   ///< the same for all taps and all of a thread's positions along window axes
  weight,  ///< of taps, and of no position along window axes
  window,  ///< of positions of window axes: once for each element that is read
  tap,     ///< of both: at every tap of every result
};

/// A thread owns a block of results: `extents` positions along each axis.
struct StencilParams {
  std::vector<WindowAxis> windows;  ///< outermost first
  std::vector<int> serial;          ///< reduction axes along which there are no windows
  std::vector<StencilRole> roles;   ///< of every value
  Sizes extents;                    ///< of a block, along each loop axis
  int chunk_axis = 0;               ///< the loop axis that chunks lie along
  bool along_window = false;        ///< which is that of the last window
  bool has_row = false;             ///< what is read along the last window axis lies in registers: a row of the window
  bool keeps_weights = false;       ///< so do the weights of all taps
};

}  // namespace vkfuse::schedule
