#include "tool/command_line.hpp"

int main(int argc, char** argv) { return vkfuse::tool::command_line(argc, argv); }
