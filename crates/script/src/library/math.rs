//! Mathematics, by functions that give the same on every machine.

use super::{Flow, Result};
use crate::native::Native;
use crate::random::Random;
use crate::value::Value;
use crate::vm::{Args, Vm};

/// What `redis` divides a drawn number by.
const RANDOM_MAX: i32 = i32::MAX;

/// Instructions that a second of `os.clock` has. It must not say what another machine would not.
const INSTRUCTIONS_PER_SECOND: f64 = 1e8;

pub(super) fn clock(vm: &mut Vm) -> Result {
    // How a run is cut must not show.
    vm.pay_for_steps();
    let seconds = vm.fuel.used() as f64 / INSTRUCTIONS_PER_SECOND;
    Ok(Flow::One(Value::Number(seconds)))
}

pub(super) fn of_one(vm: &mut Vm, native: Native, args: Args) -> Result {
    let n = vm.number_arg(args, 0)?;
    let result = match native {
        Native::MathAbs => n.abs(),
        Native::MathAcos => libm::acos(n),
        Native::MathAsin => libm::asin(n),
        Native::MathAtan => libm::atan(n),
        Native::MathCeil => n.ceil(),
        Native::MathCos => libm::cos(n),
        Native::MathCosh => libm::cosh(n),
        Native::MathDeg => n / (std::f64::consts::PI / 180.0),
        Native::MathExp => libm::exp(n),
        Native::MathFloor => n.floor(),
        Native::MathLog => libm::log(n),
        Native::MathLog10 => libm::log10(n),
        Native::MathRad => n * (std::f64::consts::PI / 180.0),
        Native::MathSin => libm::sin(n),
        Native::MathSinh => libm::sinh(n),
        Native::MathSqrt => n.sqrt(),
        Native::MathTan => libm::tan(n),
        _ => libm::tanh(n),
    };
    Ok(Flow::One(Value::Number(result)))
}

pub(super) fn of_two(vm: &mut Vm, native: Native, args: Args) -> Result {
    let (a, b) = (vm.number_arg(args, 0)?, vm.number_arg(args, 1)?);
    let result = match native {
        Native::MathAtan2 => libm::atan2(a, b),
        Native::MathPow => libm::pow(a, b),
        _ => a % b,
    };
    Ok(Flow::One(Value::Number(result)))
}

pub(super) fn frexp(vm: &mut Vm, args: Args) -> Result {
    let (mantissa, exponent) = libm::frexp(vm.number_arg(args, 0)?);
    vm.values.clear();
    vm.values
        .extend([Value::Number(mantissa), Value::Number(f64::from(exponent))]);
    Ok(Flow::Values)
}

pub(super) fn ldexp(vm: &mut Vm, args: Args) -> Result {
    let (n, exponent) = (vm.number_arg(args, 0)?, vm.integer_arg(args, 1)?);
    Ok(Flow::One(Value::Number(libm::ldexp(n, exponent as i32))))
}

pub(super) fn max(vm: &mut Vm, args: Args) -> Result {
    let mut max = vm.number_arg(args, 0)?;
    for index in 1..args.count {
        let n = vm.number_arg(args, index)?;
        if n > max {
            max = n;
        }
    }
    Ok(Flow::One(Value::Number(max)))
}

pub(super) fn min(vm: &mut Vm, args: Args) -> Result {
    let mut min = vm.number_arg(args, 0)?;
    for index in 1..args.count {
        let n = vm.number_arg(args, index)?;
        if n < min {
            min = n;
        }
    }
    Ok(Flow::One(Value::Number(min)))
}

pub(super) fn modf(vm: &mut Vm, args: Args) -> Result {
    let n = vm.number_arg(args, 0)?;
    let whole = n.trunc();
    let fraction = if n.is_infinite() {
        0.0_f64.copysign(n)
    } else {
        (n - whole).copysign(n)
    };
    vm.values.clear();
    vm.values.extend([Value::Number(whole), Value::Number(fraction)]);
    Ok(Flow::Values)
}

pub(super) fn random(vm: &mut Vm, args: Args) -> Result {
    let r = f64::from(vm.random.draw() % RANDOM_MAX) / f64::from(RANDOM_MAX);
    let result = match args.count {
        0 => r,
        1 => {
            let high = f64::from(vm.integer_arg(args, 0)? as i32);
            if high < 1.0 {
                return Err(vm.bad_argument(args, 0, "interval is empty"));
            }
            (r * high).floor() + 1.0
        }
        2 => {
            let low = f64::from(vm.integer_arg(args, 0)? as i32);
            let high = f64::from(vm.integer_arg(args, 1)? as i32);
            if low > high {
                return Err(vm.bad_argument(args, 1, "interval is empty"));
            }
            (r * (high - low + 1.0)).floor() + low
        }
        _ => return Err(crate::raise::Raise::Text("wrong number of arguments")),
    };
    Ok(Flow::One(Value::Number(result)))
}

pub(super) fn randomseed(vm: &mut Vm, args: Args) -> Result {
    let seed = vm.integer_arg(args, 0)? as i32;
    vm.random = Random::seeded(seed);
    Ok(Flow::None)
}
