# dpo_cuda_architectures(VARIABLE ARCHITECTURE...) sets VARIABLE to these CUDA architectures, with 90a for 9.0: plain 90
# lacks Hopper's own matmul instructions. Code for 90a runs on no newer GPU, so 90 also adds PTX of 9.0.
function(dpo_cuda_architectures variable)
  set(architectures ${ARGN})
  list(TRANSFORM architectures REPLACE "^90$" "90a-real;90-virtual")
  list(TRANSFORM architectures REPLACE "^90-real$" "90a-real")
  list(REMOVE_DUPLICATES architectures)
  set(${variable} "${architectures}" PARENT_SCOPE)
endfunction()
