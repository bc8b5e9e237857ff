# The third-party libraries, as targets of their own names.
find_package(yaml-cpp REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
if(DPO_TESTS)
  find_package(GTest REQUIRED)
endif()
