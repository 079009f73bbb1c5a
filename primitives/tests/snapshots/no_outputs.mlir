module @nothing {
  func.func public @main(%arg0: tensor<f32>) -> () {
    return
  }
}
