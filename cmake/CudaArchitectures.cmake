# dpo_cuda_architectures(VARIABLE ARCHITECTURE...): VARIABLE becomes these CUDA architectures, 9.0 as 90a: with Hopper's own
# products, which plain 90 leaves out. Code of 90a runs on no newer GPU, so 90 still means PTX of 9.0 too.
function(dpo_cuda_architectures variable)
  set(architectures ${ARGN})
  list(TRANSFORM architectures REPLACE "^90$" "90a-real;90-virtual")
  list(TRANSFORM architectures REPLACE "^90-real$" "90a-real")
  list(REMOVE_DUPLICATES architectures)
  set(${variable} "${architectures}" PARENT_SCOPE)
endfunction()
