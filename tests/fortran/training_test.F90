! SPDX-License-Identifier: Apache-2.0
!! Five steps of a small network give the same weights as plain Fortran loops on all data, on any number of ranks.
program training_test
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use checks
  use ostraka
  implicit none

  integer, parameter :: inputs = 3, hidden = 5, outputs = 2, points = 4, num_steps = 5
  integer, parameter :: sizes(5) = [inputs * hidden, hidden, hidden * outputs, outputs, 1]
  integer, parameter :: num_weights = sum(sizes)
  real(real64), parameter :: rate = 0.05d0, momentum = 0.9d0, sgd_decay = 1d-3
  real(real64), parameter :: beta1 = 0.8d0, beta2 = 0.95d0, epsilon = 1d-4, adamw_decay = 0.1d0
  type(ostraka_mesh_t) :: mesh

  call start()
  call mesh%create(MPI_COMM_WORLD%mpi_val)
  call compare('sgd', OSTRAKA_ZERO_3, 1)
  call compare('sgd', OSTRAKA_ZERO_3, 3)
  call compare('adamw', OSTRAKA_ZERO_3, 1)
  call compare('adamw', OSTRAKA_ZERO_3, 3)
  call compare('sgd', OSTRAKA_NO_SHARD, 3)
  call compare('adamw', OSTRAKA_NO_SHARD, 1)
  call compare('sgd', OSTRAKA_ZERO_1, 3)
  call compare('adamw', OSTRAKA_ZERO_2, 3)
  call mesh%destroy()
  call on_a_plane()
  call finish()

contains

  subroutine on_a_plane()
    integer(int32) :: outer

    outer = merge(2, 1, mod(num_ranks, 2) == 0)
    call mesh%create(MPI_COMM_WORLD%mpi_val, sizes=[outer, int(num_ranks, int32) / outer])
    call compare('sgd', OSTRAKA_HSDP, 3)
    call compare('adamw', OSTRAKA_HFSDP, 3)
    call compare('adamw', OSTRAKA_ZERO_1_ZERO_2, 1)
    call compare('sgd', OSTRAKA_ZERO_3, 3)
    call mesh%destroy()
  end subroutine

  subroutine compare(optimizer, recipe, batches)
    character(*), intent(in) :: optimizer
    integer(int32), intent(in) :: recipe
    integer, intent(in) :: batches
    real(real64) :: here(num_weights), plain(num_weights)

    here = train(optimizer, recipe, batches)
    plain = train_plainly(optimizer, batches)
    call expect(maxval(abs(here - plain)) <= 1d-12, __LINE__, optimizer // ' differs')
    call expect(maxval(abs(plain - first_weights())) > 1d-2, __LINE__, 'nothing was learnt')
  end subroutine

  !! Numbers between -1 and 1 that depend on `seed` only.
  pure function noise(n, seed) result(values)
    integer, intent(in) :: n, seed
    real(real64) :: values(n)
    integer :: i

    values = [(sin(12.9898d0 * i + 78.233d0 * seed), i = 1, n)]
  end function

  pure function first_weights() result(weights)
    real(real64) :: weights(num_weights)

    weights = noise(num_weights, 1)
  end function

  !! The points of one rank in one micro-batch of one step.
  pure subroutine sample(step, batch, rank, x, wanted)
    integer, intent(in) :: step, batch, rank
    real(real64), intent(out) :: x(inputs, points), wanted(outputs, points)

    x = reshape(noise(inputs * points, 2 + step + 10 * batch + 100 * rank), shape(x))
    wanted(1, :) = x(1, :) * x(2, :)
    wanted(2, :) = x(3, :) - 0.5d0
  end subroutine

  !! hidden = tanh(x w1 + b1)
  pure function layer1(w1, b1, x) result(h)
    real(real64), intent(in) :: w1(inputs, hidden), b1(hidden), x(:,:)
    real(real64) :: h(hidden, size(x, 2))
    integer :: i, p

    do p = 1, size(x, 2)
      do i = 1, hidden
        h(i, p) = tanh(dot_product(w1(:, i), x(:, p)) + b1(i))
      end do
    end do
  end function

  !! y = scale * (h w2 + b2), and the derivative of sum((y - wanted)**2) with respect to everything
  pure subroutine layer2(w2, b2, scale, h, wanted, g_w2, g_b2, g_scale, g_h)
    real(real64), intent(in) :: w2(hidden, outputs), b2(outputs), scale, h(:,:), wanted(:,:)
    real(real64), intent(out) :: g_w2(hidden, outputs), g_b2(outputs), g_scale, g_h(hidden, size(h, 2))
    real(real64) :: sums(outputs), error(outputs)
    integer :: p

    g_w2 = 0
    g_b2 = 0
    g_scale = 0
    do p = 1, size(h, 2)
      sums = matmul(h(:, p), w2) + b2
      error = 2 * (scale * sums - wanted(:, p))
      g_w2 = g_w2 + scale * spread(h(:, p), 2, outputs) * spread(error, 1, hidden)
      g_b2 = g_b2 + scale * error
      g_scale = g_scale + dot_product(sums, error)
      g_h(:, p) = scale * matmul(w2, error)
    end do
  end subroutine

  pure subroutine layer1_backward(x, h, g_h, g_w1, g_b1)
    real(real64), intent(in) :: x(:,:), h(:,:), g_h(:,:)
    real(real64), intent(out) :: g_w1(inputs, hidden), g_b1(hidden)
    real(real64) :: error(hidden)
    integer :: p

    g_w1 = 0
    g_b1 = 0
    do p = 1, size(x, 2)
      error = g_h(:, p) * (1 - h(:, p)**2)
      g_w1 = g_w1 + spread(x(:, p), 2, hidden) * spread(error, 1, inputs)
      g_b1 = g_b1 + error
    end do
  end subroutine

  !! With the library: weights in two modules, each rank with its own points.
  function train(name, recipe, batches) result(weights)
    character(*), intent(in) :: name
    integer(int32), intent(in) :: recipe
    integer, intent(in) :: batches
    real(real64) :: weights(num_weights)
    type(ostraka_fsdp_context_t) :: context
    type(ostraka_fsdp_module_t) :: first, second
    type(ostraka_optimizer_t) :: optimizer
    type(ostraka_memory_report_t) :: report
    real(real64), pointer :: w1(:,:), b1(:), w2(:,:), b2(:), scale, g1(:,:), gb1(:), g2(:,:), gb2(:), gs
    real(real64), pointer :: early1(:,:), early2(:)
    real(real64) :: h(hidden, points), kept_w2(hidden, outputs), kept_b2(outputs)
    real(real64) :: x(inputs, points), wanted(outputs, points), g_h(hidden, points), kept_scale, beta
    real(real64) :: c_w2(hidden, outputs), c_b2(outputs), c_scale, c_w1(inputs, hidden), c_b1(hidden), part
    integer :: step, batch, at(0:5), i

    at = [0, (sum(sizes(:i)), i = 1, 5)]
    weights = first_weights()
    call context%create(mesh, recipe=recipe)
    call context%add_module('first', first)
    call first%add_parameter('weight', [inputs, hidden])
    call first%add_parameter('bias', [hidden])
    call first%build()
    call context%add_module('second', second)
    call second%add_parameter('weight', [hidden, outputs])
    call second%add_parameter('bias', [outputs])
    call second%add_parameter('scale', [integer ::])
    call second%build()
    call first%set_parameter('weight', weights(at(0) + 1:at(1)))
    call first%set_parameter('bias', weights(at(1) + 1:at(2)))
    call second%set_parameter('weight', reshape(weights(at(2) + 1:at(3)), [hidden, outputs]))
    call second%set_parameter('bias', weights(at(3) + 1:at(4)))
    call second%set_parameter('scale', weights(num_weights))
    call context%finalize()
    if (name == 'sgd') then
      call optimizer%create_sgd(context, learning_rate=1d0, momentum=momentum, weight_decay=sgd_decay)
    else
      call optimizer%create_adamw(context, learning_rate=1d0, beta1=beta1, beta2=beta2, epsilon=epsilon, &
        weight_decay=adamw_decay)
    end if
    call optimizer%set_learning_rate(rate)

    part = 1d0 / (points * batches)
    do step = 1, num_steps
      do batch = 1, batches
        call sample(step, batch, my_rank, x, wanted)
        call context%set_last_microbatch(batch == batches)
        call first%pre_forward()
        call first%parameter('weight', w1)
        call first%parameter('bias', b1)
        h = layer1(w1, b1, x)
        call first%post_forward()
        call second%pre_forward()
        call second%parameter('weight', early1)
        call second%parameter('bias', early2)
        kept_w2 = early1
        kept_b2 = early2
        call second%post_forward()

        call second%pre_backward()
        call second%parameter('weight', w2)
        call second%parameter('bias', b2)
        call second%parameter('scale', scale)
        if (any(w2 /= kept_w2) .or. any(b2 /= kept_b2)) call expect(.false., __LINE__, 'weights changed in a pass')
        kept_scale = scale
        call layer2(w2, b2, kept_scale, h, wanted, c_w2, c_b2, c_scale, g_h)
        call second%gradient('weight', g2, beta)
        if (beta == 0) g2 = 0
        g2 = g2 + part * c_w2
        call second%gradient('bias', gb2, beta)
        if (beta == 0) gb2 = 0
        gb2 = gb2 + part * c_b2
        call second%gradient('scale', gs, beta)
        if (beta == 0) gs = 0
        gs = gs + part * c_scale
        call second%post_backward()
        call first%pre_backward()
        call layer1_backward(x, h, g_h, c_w1, c_b1)
        call first%gradient('weight', g1, beta)
        if (beta == 0) g1 = 0
        g1 = g1 + part * c_w1
        call first%gradient('bias', gb1, beta)
        if (beta == 0) gb1 = 0
        gb1 = gb1 + part * c_b1
        call first%post_backward()
        call context%finish_backward()
      end do
      call optimizer%step()
      call context%zero_grad()
    end do
    call context%memory(report)
    call expect(report%num_elements == num_weights, __LINE__)
    call expect(report%optimizer_state > 0, __LINE__)

    call context%begin_inference()
    call first%parameter('weight', w1)
    call first%parameter('bias', b1)
    call second%parameter('weight', w2)
    call second%parameter('bias', b2)
    call second%parameter('scale', scale)
    weights = [reshape(w1, [sizes(1)]), b1, reshape(w2, [sizes(3)]), b2, scale]
    call context%end_inference()
    call optimizer%destroy()
    call context%destroy()
  end function

  !! Without it: the mean over the points of all ranks and micro-batches.
  function train_plainly(name, batches) result(w)
    character(*), intent(in) :: name
    integer, intent(in) :: batches
    real(real64) :: w(num_weights), g(num_weights), m(num_weights), v(num_weights)
    real(real64) :: x(inputs, points), wanted(outputs, points), h(hidden, points), g_h(hidden, points)
    real(real64) :: w1(inputs, hidden), w2(hidden, outputs), c_w1(inputs, hidden), c_w2(hidden, outputs)
    real(real64) :: b1(hidden), b2(outputs), c_b1(hidden), c_b2(outputs), c_scale
    integer :: step, batch, rank

    w = first_weights()
    m = 0
    v = 0
    do step = 1, num_steps
      w1 = reshape(w(:15), [inputs, hidden])
      b1 = w(16:20)
      w2 = reshape(w(21:30), [hidden, outputs])
      b2 = w(31:32)
      g = 0
      do rank = 0, num_ranks - 1
        do batch = 1, batches
          call sample(step, batch, rank, x, wanted)
          h = layer1(w1, b1, x)
          call layer2(w2, b2, w(33), h, wanted, c_w2, c_b2, c_scale, g_h)
          call layer1_backward(x, h, g_h, c_w1, c_b1)
          g = g + [reshape(c_w1, [15]), c_b1, reshape(c_w2, [10]), c_b2, c_scale]
        end do
      end do
      g = g / (points * batches * num_ranks)
      if (name == 'sgd') then
        m = momentum * m + g + sgd_decay * w
        w = w - rate * m
      else
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        w = w - rate * adamw_decay * w
        w = w - rate * (m / (1 - beta1**step)) / (sqrt(v / (1 - beta2**step)) + epsilon)
      end if
    end do
  end function
end program
