'use strict';
(() => {
  const points = [...document.querySelectorAll('section.point')];
  const slider = document.getElementById('ranks'), output = document.getElementById('ranks-text');
  const radios = [...document.querySelectorAll('input[name=recipe]')];
  // '' is the cheapest one of the point that is shown.
  const chosen = () => (radios.find((radio) => radio.checked) || {value: ''}).value;

  function show() {
    const index = Number(slider.value), recipe = chosen();
    points.forEach((point, i) => { point.hidden = i !== index; });
    const point = points[index], wanted = recipe || point.dataset.shown;
    output.textContent = point.dataset.ranks;
    slider.setAttribute('aria-valuetext', point.dataset.ranks + ' ranks');
    point.querySelectorAll('.step').forEach((step) => { step.hidden = step.dataset.recipe !== wanted; });
    history.replaceState(null, '', '#ranks=' + point.dataset.ranks + (recipe ? '&recipe=' + recipe : ''));
  }

  function restore() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    const index = points.findIndex((point) => point.dataset.ranks === wanted.get('ranks'));
    if (index >= 0)
      slider.value = String(index);
    const radio = radios.find((other) => other.value === wanted.get('recipe'));
    if (radio)
      radio.checked = true;
    show();
  }

  slider.addEventListener('input', show);
  radios.forEach((radio) => radio.addEventListener('change', show));
  window.addEventListener('hashchange', restore);
  restore();
})();
