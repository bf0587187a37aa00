// The files that outputs are written to.
#pragma once

#include <map>
#include <set>
#include <string>

namespace vkfuse::tool {

/// A file's name, without its ending, for each output: letters, digits, '_' and '-' of the output's name, 100 at most.
/// No two are the same, also where upper and lower case are: one whose name has to change makes way, "a.b" beside "a_b"
/// is "a_b_2". What Windows takes for a device ends with '_': "con_".
std::map<std::string, std::string> file_stems(const std::set<std::string>& outputs);

}  // namespace vkfuse::tool
