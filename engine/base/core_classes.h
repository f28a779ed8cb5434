// How many logical CPUs a hybrid CPU has of each class. The kernel knows (it names one PMU per class); reading its
// files takes the root of the file system as an argument.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/base/machine.h"

namespace hone {

// Number of CPUs in a list as sysfs writes it: "0-15,17" is 17; "" is 0. nullopt for anything else.
std::optional<int> count_cpu_list(std::string_view list);

// From /sys/devices/{cpu_core,cpu_atom}/cpus, the CPUs by class; all zeros where there are no such files (one class, or
// a guest that is not told). `all` is /sys/devices/system/cpu/online. `root` is "" for the running system.
CoreClasses read_core_classes(const std::string& root);

}  // namespace hone
